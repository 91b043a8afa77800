import type { Counters } from "../observability/counters.ts";
import { shorten } from "../json/text.ts";
import type { Log, LogFields } from "../observability/log.ts";
import { LogLimiter } from "../observability/log-limiter.ts";
import { MAX_SECRET_LENGTH, type Redact } from "../observability/redact.ts";

const MAX_SHOWN_LENGTH = 200;

/** Logs a server's stdout lines that are not JSON-RPC. The first lines of each period are shown, shortened; the others are counted. */
export class StdoutNoise {
  readonly #counts: Counters["dropped"];
  readonly #log: Log;
  readonly #fields: LogFields;
  readonly #redact: Redact;
  readonly #limiter: LogLimiter;
  #suppressed = 0;

  constructor({ dropped }: Counters, log: Log, fields: LogFields, redact: Redact, nowMs: () => number) {
    this.#counts = dropped;
    this.#log = log;
    this.#fields = fields;
    this.#redact = redact;
    this.#limiter = new LogLimiter(nowMs);
  }

  report(line: string, reason: string): void {
    this.#counts.noiseLines++;
    if (!this.#limiter.allows()) {
      this.#suppressed++;
      return;
    }
    this.reportSuppressed();
    // A line that begins like JSON is meant as a message, and messages are not logged.
    const beginning = line.slice(0, MAX_SHOWN_LENGTH + MAX_SECRET_LENGTH);
    const shown = /^\s*[{[]/.test(beginning)
      ? { bytes: Buffer.byteLength(line) }
      : { line: shorten(this.#redact(beginning), MAX_SHOWN_LENGTH) };
    this.#log.warn({ ...this.#fields, reason, ...shown }, "stdout line skipped: not json-rpc");
  }

  /** Logs the number of suppressed lines, if there are any. */
  reportSuppressed(): void {
    if (this.#suppressed > 0) this.#log.warn({ ...this.#fields, count: this.#suppressed }, "more stdout lines skipped: not json-rpc");
    this.#suppressed = 0;
  }
}
