import { shorten } from "../json/text.ts";
import type { Call } from "./call.ts";
import type { CallTable } from "./call-table.ts";
import type { Dispatch } from "./dispatch.ts";
import type { LaneLimits } from "./lane-limits.ts";
import type { Upstream } from "../upstream/port.ts";

export interface HangWatchOptions {
  readonly dispatch: Dispatch;
  readonly upstream: Upstream;
  readonly limits: Pick<LaneLimits, "requestTimeoutMs" | "pingIntervalMs" | "hungTimeouts">;
  /** Whether the server waits for a client, and so may be silent for long. */
  readonly isWaitingForClient: () => boolean;
}

/**
 * Has a server started again that runs and says nothing. Timeouts are counted that follow each other while the server is silent: those
 * of clients' requests and, where they are wanted, those of pings while it is idle. Each has to be of a request that came after the
 * server's last message and after the timeout before it: many that run out together are one sign, not many. Whatever the server says
 * starts the count over, an error to a ping as well.
 *
 * A tool may have a time of its own. Where that is so short that one timeout says little, all of them together are one sign once the
 * server has been silent for as long as any request may take. Where it is long, the server may be silent for as long: until then, the
 * timeouts of shorter calls are no sign.
 */
export class HangWatch {
  readonly #options: HangWatchOptions;
  readonly #calls: CallTable;
  #isReady = false;
  /** In a row. */
  #timeouts = 0;
  /** Requests up to this id say nothing: they came before the last sign of life, or the last timeout that counted. */
  #lastUselessId = 0;
  /** The first of the requests that ran out since then, and when the server was sent it. */
  #firstTimedOutId = 0;
  #silentSinceMs = 0;
  #hasSpokenSinceTick = false;
  #isPinged = false;
  #nextTickMs = Number.POSITIVE_INFINITY;

  constructor(options: HangWatchOptions) {
    this.#options = options;
    this.#calls = options.dispatch.calls;
  }

  /** The server has said something. Called with every message, so no more than this. */
  heard(): void {
    this.#timeouts = 0;
    this.#lastUselessId = this.#calls.lastId;
    this.#hasSpokenSinceTick = true;
  }

  onReady(nowMs: number): void {
    this.#isReady = true;
    this.#isPinged = false;
    this.heard();
    const { pingIntervalMs } = this.#options.limits;
    if (pingIntervalMs === undefined) return;
    this.#nextTickMs = nowMs + pingIntervalMs;
    this.#options.dispatch.watch(this.#nextTickMs);
  }

  onLost(): void {
    this.#isReady = false;
    this.#nextTickMs = Number.POSITIVE_INFINITY;
  }

  /** A request has run out of time. */
  onTimeout(call: Call, nowMs: number): void {
    const { limits } = this.#options;
    // The sidecar's own requests are pings, which are counted by the tick, or may have been held up by the clients'.
    if (call.session === undefined || call.sentAtMs === undefined || call.wireId <= this.#lastUselessId) return;
    if (this.#firstTimedOutId <= this.#lastUselessId) {
      this.#firstTimedOutId = call.wireId;
      this.#silentSinceMs = call.sentAtMs;
    }
    // A client may spend nearly all of the time on its body: that is not the server's.
    const isSign = nowMs - call.sentAtMs >= limits.requestTimeoutMs / 2 || nowMs - this.#silentSinceMs >= limits.requestTimeoutMs;
    if (isSign && !this.#mayBeBusyFor(call)) this.#count(call.method);
  }

  /** @returns when to be called next, or Infinity. */
  tick(nowMs: number): number {
    const { dispatch, limits, isWaitingForClient } = this.#options;
    if (nowMs < this.#nextTickMs || limits.pingIntervalMs === undefined) return this.#nextTickMs;
    this.#nextTickMs = nowMs + limits.pingIntervalMs;
    const isSilent = !this.#hasSpokenSinceTick && !isWaitingForClient();
    if (isSilent && this.#isPinged) this.#count("ping");
    this.#hasSpokenSinceTick = false;
    this.#isPinged = isSilent && this.#isReady && this.#calls.size === 0;
    if (this.#isPinged) dispatch.ask("ping", {}, undefined);
    return this.#nextTickMs;
  }

  /** Whether the server has a call that may take longer than any without a time of its own, and than this one. */
  #mayBeBusyFor({ timeoutMs }: Call): boolean {
    const usualMs = Math.max(timeoutMs, this.#options.limits.requestTimeoutMs);
    return this.#calls.values().some((other) => other.timeoutMs > usualMs && other.state === "written");
  }

  #count(method: string): void {
    const { upstream, limits, isWaitingForClient } = this.#options;
    if (!this.#isReady || isWaitingForClient()) return;
    this.#lastUselessId = this.#calls.lastId;
    this.#timeouts++;
    if (this.#timeouts < limits.hungTimeouts) return;
    // Nothing more is to be said of this generation.
    this.onLost();
    const times = limits.hungTimeouts === 1 ? "ran out of time" : `ran out of time, the last of ${limits.hungTimeouts} in a row`;
    upstream.restart("hung", `hung: it said nothing while ${shorten(method)} ${times}`);
  }
}
