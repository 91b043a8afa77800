const LINES_PER_PERIOD = 10;
const PERIOD_MS = 10_000;

/** For log lines that somebody else can cause at any rate: lets the first of each period through and counts the rest. */
export class LogLimiter {
  readonly #nowMs: () => number;
  #periodStartMs = Number.NEGATIVE_INFINITY;
  #linesInPeriod = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Whether this line may be logged; to be asked once per line. */
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
