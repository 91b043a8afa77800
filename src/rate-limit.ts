const MINUTE_MS = 60_000;
/** What sums of fractions of a millisecond may be off by. */
const ROUNDING_MS = 1e-3;

/**
 * So many a minute, and as many at once: a bucket of `perMinute` tokens that is full at first and gets `perMinute` new ones in a minute,
 * evenly. Kept as one number, the time when it is full again.
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
   * @param nowMs of a clock that does not go back.
   * @returns undefined where there was one; else in how many milliseconds, more than 0, there will be. Then nothing was taken.
   */
  take(nowMs: number): number | undefined {
    const waitMs = this.waitMs(nowMs);
    if (waitMs === undefined) this.#fullAtMs = Math.max(this.#fullAtMs, nowMs) + this.#intervalMs;
    return waitMs;
  }

  /** Whether it makes no difference to begin with a new one. */
  isFull(nowMs: number): boolean {
    return this.#fullAtMs <= nowMs;
  }

  /** What `take` would return; takes nothing. */
  waitMs(nowMs: number): number | undefined {
    const waitMs = Math.max(this.#fullAtMs, nowMs) + this.#intervalMs - MINUTE_MS - nowMs;
    return waitMs > ROUNDING_MS ? waitMs : undefined;
  }
}
