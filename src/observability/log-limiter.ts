import type { Log } from "./log.ts";

const LINES_PER_PERIOD = 10;
const PERIOD_MS = 10_000;

/** Limits log lines that a client or server can cause at any rate. Only the first lines of each period are allowed. */
export class LogLimiter {
  readonly #nowMs: () => number;
  readonly #linesPerPeriod: number;
  #periodStartMs = Number.NEGATIVE_INFINITY;
  #linesInPeriod = 0;

  constructor(nowMs: () => number, linesPerPeriod = LINES_PER_PERIOD) {
    this.#nowMs = nowMs;
    this.#linesPerPeriod = linesPerPeriod;
  }

  /** Returns true if a line may be logged. To be called once per line. */
  allows(): boolean {
    const nowMs = this.#nowMs();
    if (nowMs - this.#periodStartMs >= PERIOD_MS) {
      this.#periodStartMs = nowMs;
      this.#linesInPeriod = 0;
    }
    this.#linesInPeriod++;
    return this.#linesInPeriod <= this.#linesPerPeriod;
  }
}

/** In a period, of the lines that end requests: a crash of the server may end as many at once. */
const LIMITED_LINES_PER_PERIOD = 100;

/** Returns a logger of lines that a client can cause at any rate. The next line after suppressed ones is preceded by their count. */
export function limitedLog(log: Log, nowMs: () => number): Log {
  const limiter = new LogLimiter(nowMs, LIMITED_LINES_PER_PERIOD);
  let suppressed = 0;
  const logAt =
    (level: keyof Log): Log[keyof Log] =>
    (fields, message) => {
      if (!limiter.allows()) {
        suppressed++;
        return;
      }
      if (suppressed > 0) log.warn({ count: suppressed }, "log lines suppressed: too many requests of clients caused them");
      suppressed = 0;
      log[level](fields, message);
    };
  return { debug: logAt("debug"), info: logAt("info"), warn: logAt("warn"), error: logAt("error") };
}
