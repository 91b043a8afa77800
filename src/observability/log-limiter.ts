const LINES_PER_PERIOD = 10;
const PERIOD_MS = 10_000;

/** Limits log lines that a client or server can cause at any rate. Only the first lines of each period are allowed. */
export class LogLimiter {
  readonly #nowMs: () => number;
  #periodStartMs = Number.NEGATIVE_INFINITY;
  #linesInPeriod = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Returns true if a line may be logged. To be called once per line. */
  allows(): boolean {
    const nowMs = this.#nowMs();
    if (nowMs - this.#periodStartMs >= PERIOD_MS) {
      this.#periodStartMs = nowMs;
      this.#linesInPeriod = 0;
    }
    this.#linesInPeriod++;
    return this.#linesInPeriod <= LINES_PER_PERIOD;
  }
}
