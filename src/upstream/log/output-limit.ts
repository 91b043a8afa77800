import type { LogFields } from "../../observability/log.ts";

/** The limit of a period, in units that the caller chooses. */
interface Limit {
  readonly periodMs: number;
  readonly maxCost: number;
}

/** Limits the log of a server's output. When a period ends, one line has the number and size of the lines that were left out. */
export class OutputLimit {
  readonly #limit: Limit;
  readonly #nowMs: () => number;
  readonly #report: (fields: LogFields) => void;
  #periodEndMs = Number.NEGATIVE_INFINITY;
  #cost = 0;
  #count = 0;
  #bytes = 0;
  #fields: LogFields = {};
  #timer: NodeJS.Timeout | undefined;

  /** @param report logs the number and size of the lines that were left out. */
  constructor(limit: Limit, nowMs: () => number, report: (fields: LogFields) => void) {
    this.#limit = limit;
    this.#nowMs = nowMs;
    this.#report = report;
  }

  /** True if a line has been left out in this period. */
  get isReached(): boolean {
    return this.#count > 0 && this.#nowMs() < this.#periodEndMs;
  }

  /**
   * True if a line may be logged. To be called once for each line.
   *
   * @param bytes its length. @param fields those of its server.
   */
  allows(cost: number, bytes: number, fields: LogFields): boolean {
    const { periodMs, maxCost } = this.#limit;
    const nowMs = this.#nowMs();
    if (nowMs >= this.#periodEndMs) {
      this.report();
      this.#periodEndMs = nowMs + periodMs;
      this.#cost = 0;
    }
    // After the first line that does not fit, shorter ones would only be confusing.
    if (this.#count === 0 && this.#cost + cost <= maxCost) {
      this.#cost += cost;
      return true;
    }
    this.#cost = maxCost;
    this.#count++;
    this.#bytes += bytes;
    this.#fields = fields;
    this.#timer ??= setTimeout(() => this.report(), this.#periodEndMs - nowMs).unref();
    return false;
  }

  /** Logs the number of lines that were left out, if there are any. */
  report(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#count === 0) return;
    this.#report({ ...this.#fields, count: this.#count, bytes: this.#bytes });
    this.#count = this.#bytes = 0;
  }
}
