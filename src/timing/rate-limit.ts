const MINUTE_MS = 60_000;
/** The largest rounding error of sums of fractions of a millisecond. */
const ROUNDING_MS = 1e-3;

/**
 * A token bucket that is full at first. It holds `perMinute` tokens and gains as many in a minute, evenly. Its only state is the time at
 * which it is full again.
 */
export class RateLimit {
  readonly #intervalMs: number;
  #fullAtMs = Number.NEGATIVE_INFINITY;

  /** @param perMinute at least 1. */
  constructor(perMinute: number) {
    this.#intervalMs = MINUTE_MS / perMinute;
  }

  /**
   * Takes a token.
   *
   * @param nowMs the time of a monotonic clock.
   * @returns undefined if a token was taken. Otherwise the time until the next token, in milliseconds, more than 0.
   */
  take(nowMs: number): number | undefined {
    const waitMs = this.waitMs(nowMs);
    if (waitMs === undefined) this.#fullAtMs = Math.max(this.#fullAtMs, nowMs) + this.#intervalMs;
    return waitMs;
  }

  /** True if the bucket is full, so that it equals a new one. */
  isFull(nowMs: number): boolean {
    return this.#fullAtMs <= nowMs;
  }

  /** Returns the same as `take`, but does not take a token. */
  waitMs(nowMs: number): number | undefined {
    const waitMs = Math.max(this.#fullAtMs, nowMs) + this.#intervalMs - MINUTE_MS - nowMs;
    return waitMs > ROUNDING_MS ? waitMs : undefined;
  }
}
