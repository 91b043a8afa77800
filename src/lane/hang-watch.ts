import { shorten } from "../json/text.ts";
import type { Call } from "./calls/call.ts";
import type { CallTable } from "./calls/call-table.ts";
import type { Dispatch } from "./dispatch.ts";
import type { LaneLimits } from "./lane-limits.ts";
import type { Upstream } from "../upstream/port.ts";

export interface HangWatchOptions {
  readonly dispatch: Dispatch;
  readonly upstream: Upstream;
  readonly limits: Pick<LaneLimits, "requestTimeoutMs" | "pingIntervalMs" | "hungTimeouts">;
  /** Returns true if the server waits for a client, and so may be silent for long. */
  readonly isWaitingForClient: () => boolean;
}

/**
 * Restarts a server that is running but unresponsive. It counts consecutive timeouts of a silent server: those of clients' requests, and
 * those of pings while it is idle, if pings are on. A timeout counts only if its request was sent after the server's last message and the
 * last timeout that counted. Requests that time out together thus count once. Any message from the server resets the count, even an error
 * to a ping.
 *
 * A tool may have its own timeout. A timeout of less than half of REQUEST_TIMEOUT_MS does not count by itself. Such timeouts count once
 * when the server has been silent for REQUEST_TIMEOUT_MS. A call with a longer timeout lets the server be silent for that long:
 * the timeouts of shorter calls do not count meanwhile.
 */
export class HangWatch {
  readonly #options: HangWatchOptions;
  readonly #calls: CallTable;
  #isReady = false;
  /** The number of consecutive timeouts that counted. */
  #timeouts = 0;
  /** Timeouts of requests up to this `sentNumber` do not count: they were sent before the last message, or the last timeout that counted. */
  #lastIgnored = 0;
  /** The first request that timed out since then. */
  #firstTimedOut = 0;
  /** The time at which it was sent. */
  #silentSinceMs = 0;
  #hasSpokenSinceTick = false;
  #isPinged = false;
  #nextTickMs = Number.POSITIVE_INFINITY;

  constructor(options: HangWatchOptions) {
    this.#options = options;
    this.#calls = options.dispatch.calls;
  }

  /** Resets the count. Called for every message of the server, so it must be cheap. */
  heard(): void {
    this.#timeouts = 0;
    this.#lastIgnored = this.#options.dispatch.sentCount;
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

  /** Called when a request has timed out. */
  onTimeout(call: Call, nowMs: number): void {
    const { limits } = this.#options;
    // Internal requests are either pings, which tick() counts, or may have been delayed by clients' requests.
    if (call.origin === "sidecar" || call.sentAtMs === undefined || call.sentNumber <= this.#lastIgnored) return;
    if (this.#firstTimedOut <= this.#lastIgnored) {
      this.#firstTimedOut = call.sentNumber;
      this.#silentSinceMs = call.sentAtMs;
    }
    // The client may use up nearly all of the timeout for its body, and leave the server too little.
    const doesCount = nowMs - call.sentAtMs >= limits.requestTimeoutMs / 2 || nowMs - this.#silentSinceMs >= limits.requestTimeoutMs;
    if (doesCount && !this.#mayBeBusyFor(call)) this.#count(call.method);
  }

  /** @returns the time of the next call, or Infinity. */
  tick(nowMs: number): number {
    const { dispatch, limits, isWaitingForClient } = this.#options;
    if (nowMs < this.#nextTickMs || limits.pingIntervalMs === undefined) return this.#nextTickMs;
    this.#nextTickMs = nowMs + limits.pingIntervalMs;
    const isSilent = !this.#hasSpokenSinceTick && !isWaitingForClient();
    if (isSilent && this.#isPinged) this.#count("ping");
    this.#hasSpokenSinceTick = false;
    this.#isPinged = isSilent && this.#isReady && this.#calls.open.size === 0;
    if (this.#isPinged) dispatch.internal.ping();
    return this.#nextTickMs;
  }

  /** True if the server has a call with a longer timeout than this call and than REQUEST_TIMEOUT_MS. */
  #mayBeBusyFor({ timeoutMs }: Call): boolean {
    const usualMs = Math.max(timeoutMs, this.#options.limits.requestTimeoutMs);
    return this.#calls
      .values()
      .some(({ origin, timeoutMs: otherMs, state }) => origin === "client" && otherMs > usualMs && state === "written");
  }

  #count(method: string): void {
    const { dispatch, upstream, limits, isWaitingForClient } = this.#options;
    if (!this.#isReady || isWaitingForClient()) return;
    this.#lastIgnored = dispatch.sentCount;
    this.#timeouts++;
    if (this.#timeouts < limits.hungTimeouts) return;
    // The generation is restarted only once.
    this.onLost();
    const cause = limits.hungTimeouts === 1 ? "timed out" : `timed out, the last of ${limits.hungTimeouts} timeouts in a row`;
    upstream.restart("hung", `hung: no output while ${shorten(method)} ${cause}`);
  }
}
