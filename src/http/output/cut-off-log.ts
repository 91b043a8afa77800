import type { Counters } from "../../observability/counters.ts";
import type { Log } from "../../observability/log.ts";
import { LogLimiter } from "../../observability/log-limiter.ts";

/** Counts and logs the connections that are closed because their clients do not read. */
export class CutOffLog {
  readonly #counters: Counters;
  readonly #log: Log;
  readonly #limiter: LogLimiter;

  constructor(counters: Counters, log: Log, nowMs: () => number) {
    this.#counters = counters;
    this.#log = log;
    this.#limiter = new LogLimiter(nowMs);
  }

  /** @param unreadLength the unread text, in UTF-16 units. */
  add(unreadLength: number, reason: string): void {
    this.#counters.http.readersCutOff++;
    if (this.#limiter.allows()) this.#log.warn({ bytes: unreadLength, reason }, "connection cut off");
  }
}
