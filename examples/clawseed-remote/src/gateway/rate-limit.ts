const PERIOD_MS = 60_000;
/** Keys that are counted at a time, so that invented ones cannot fill the memory. */
const MAX_KEYS = 1000;

/** Counts events by key in each minute. */
export class RateLimit {
  readonly #maxPerMinute: number;
  readonly #counts = new Map<string, number>();
  #period = 0;

  constructor(maxPerMinute: number) {
    this.#maxPerMinute = maxPerMinute;
  }

  /** @returns false if there were too many in this minute. */
  take(key: string): boolean {
    const period = Math.floor(performance.now() / PERIOD_MS);
    if (period !== this.#period) this.#counts.clear();
    this.#period = period;
    const count = this.#counts.get(key) ?? 0;
    if (count >= this.#maxPerMinute || (count === 0 && this.#counts.size >= MAX_KEYS)) return false;
    this.#counts.set(key, count + 1);
    return true;
  }
}
