import type { Socket } from "node:net";
import type { Defects } from "../../observability/defects.ts";
import type { Connections } from "../connections.ts";

const MAX_SWEEP_MS = 1000;

export interface StalledReadersOptions {
  /** Time for which a client may leave pending output unread. */
  readonly timeoutMs: number;
  readonly defects: Pick<Defects, "guard">;
  readonly nowMs: () => number;
  /** Called for each connection that is closed, with its unread text in UTF-16 units. */
  readonly onCut: (unreadLength: number) => void;
}

/**
 * Closes the connections of clients that leave pending output unread, and would hold memory and sockets.
 *
 * Node does not expose the progress of a single large write, but its socket timer observes it: the timer restarts while the rest gets
 * smaller. One sweep over all connections sets this timer only for those with pending output. Setting it for each response would slow down
 * every call.
 */
export class StalledReaders {
  readonly #connections: Connections;
  readonly #options: StalledReadersOptions;
  /** Half of the time limit. The timer shows only that nothing was read since it was set, which may be later than the last read. */
  readonly #checkMs: number;
  readonly #timer: NodeJS.Timeout;
  readonly #unreadSinceMs = new WeakMap<Socket, number>();

  constructor(connections: Connections, options: StalledReadersOptions) {
    this.#connections = connections;
    this.#options = options;
    this.#checkMs = Math.ceil(options.timeoutMs / 2);
    const sweep = (): void => options.defects.guard("stalled readers", () => this.#sweep());
    this.#timer = setInterval(sweep, Math.min(MAX_SWEEP_MS, this.#checkMs)).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Must be called when the timer of a socket with an open response fires. */
  onTimeout(socket: Socket): void {
    const unreadLength = socket.writableLength;
    if (unreadLength === 0) {
      socket.setTimeout(0);
      return;
    }
    const { nowMs, onCut } = this.#options;
    const firedBeforeMs = nowMs() - (this.#unreadSinceMs.get(socket) ?? Number.NEGATIVE_INFINITY);
    // If the timer fired longer ago than this, the client has read something since.
    if (firedBeforeMs < this.#checkMs * 1.5) {
      socket.destroy();
      onCut(unreadLength);
    } else {
      this.#unreadSinceMs.set(socket, nowMs());
      socket.setTimeout(this.#checkMs);
    }
  }

  #sweep(): void {
    for (const [socket, { responses }] of this.#connections.entries()) {
      if (responses.size > 0 && socket.writableLength > 0 && socket.timeout !== this.#checkMs) socket.setTimeout(this.#checkMs);
    }
  }
}
