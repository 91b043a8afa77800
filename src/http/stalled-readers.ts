import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Defects } from "../defects.ts";

const MAX_SWEEP_MS = 1000;

export interface StalledReadersOptions {
  /** How long nothing of what waits may be read. */
  readonly timeoutMs: number;
  readonly defects: Pick<Defects, "guard">;
  readonly nowMs: () => number;
  /** Told of each connection that is cut, and how much text had waited there, in UTF-16 units. */
  readonly onCut: (unreadLength: number) => void;
}

/**
 * Cuts the connections of clients that read nothing of what waits for them: the memory and the socket would be held for as long.
 *
 * What a client takes of a single large write shows in nothing that Node makes public, but Node's own timer of a socket looks at it: it
 * starts over as long as the rest gets smaller. So one sweep for all connections sets that timer where something waits, and only there;
 * to set it for each response would cost every call something.
 */
export class StalledReaders {
  readonly #responses: ReadonlySet<ServerResponse>;
  readonly #options: StalledReadersOptions;
  /** Half of the time: the timer tells only that nothing was read since it was last set, which may be later than the last reading. */
  readonly #checkMs: number;
  readonly #unreadSinceMs = new WeakMap<Socket, number>();

  /** @param responses all that are open. */
  constructor(responses: ReadonlySet<ServerResponse>, options: StalledReadersOptions) {
    this.#responses = responses;
    this.#options = options;
    this.#checkMs = Math.ceil(options.timeoutMs / 2);
    const sweep = (): void => options.defects.guard("stalled readers", () => this.#sweep());
    setInterval(sweep, Math.min(MAX_SWEEP_MS, this.#checkMs)).unref();
  }

  /** To be called when the timer of a socket with an open response fires. */
  onTimeout(socket: Socket): void {
    const unreadLength = socket.writableLength;
    if (unreadLength === 0) {
      socket.setTimeout(0);
      return;
    }
    const { nowMs, onCut } = this.#options;
    const firedBeforeMs = nowMs() - (this.#unreadSinceMs.get(socket) ?? Number.NEGATIVE_INFINITY);
    // Longer than one check and a bit: in between, something was read.
    if (firedBeforeMs < this.#checkMs * 1.5) {
      socket.destroy();
      onCut(unreadLength);
    } else {
      this.#unreadSinceMs.set(socket, nowMs());
      socket.setTimeout(this.#checkMs);
    }
  }

  #sweep(): void {
    for (const { socket } of this.#responses) {
      if (socket !== null && socket.writableLength > 0 && socket.timeout !== this.#checkMs) socket.setTimeout(this.#checkMs);
    }
  }
}
