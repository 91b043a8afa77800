import type { Counters } from "../../observability/counters.ts";
import { shorten } from "../../json/text.ts";
import { atDebug, type Log, type LogFields } from "../../observability/log.ts";
import { LogLimiter } from "../../observability/log-limiter.ts";
import { MAX_SECRET_LENGTH, type Redact } from "../../observability/redact.ts";

const MAX_SHOWN_LENGTH = 200;

export interface StdoutNoiseOptions {
  readonly counters: Counters;
  readonly log: Log;
  readonly fields: LogFields;
  readonly redact: Redact;
  readonly nowMs: () => number;
  /** True for a line that an earlier start had printed too. */
  readonly isRepeated?: ((line: string) => boolean) | undefined;
}

/** Logs a server's stdout lines that are not JSON-RPC. The first lines of each period are shown, shortened; the others are counted. */
export class StdoutNoise {
  readonly #counts: Counters["dropped"];
  readonly #log: Log;
  readonly #fields: LogFields;
  readonly #redact: Redact;
  readonly #limiter: LogLimiter;
  /** Lines that are logged at the level debug do not use up the limit of the others. */
  readonly #repeatedLimiter: LogLimiter;
  readonly #isRepeated: (line: string) => boolean;
  #suppressed = 0;
  #isNoisy = false;

  constructor({ counters, log, fields, redact, nowMs, isRepeated = () => false }: StdoutNoiseOptions) {
    this.#counts = counters.dropped;
    this.#log = log;
    this.#fields = fields;
    this.#redact = redact;
    this.#limiter = new LogLimiter(nowMs);
    this.#repeatedLimiter = new LogLimiter(nowMs);
    this.#isRepeated = isRepeated;
  }

  /** True if there was any such line. */
  get isNoisy(): boolean {
    return this.#isNoisy;
  }

  report(line: string, reason: string): void {
    this.#counts.noiseLines++;
    this.#isNoisy = true;
    const isRepeated = this.#isRepeated(line);
    if (!(isRepeated ? this.#repeatedLimiter : this.#limiter).allows()) {
      if (!isRepeated) this.#suppressed++;
      return;
    }
    this.reportSuppressed();
    // A line that begins like JSON is meant as a message, and messages are not logged.
    const beginning = line.slice(0, MAX_SHOWN_LENGTH + MAX_SECRET_LENGTH);
    const shown = /^\s*[{[]/.test(beginning)
      ? { bytes: Buffer.byteLength(line) }
      : { line: shorten(this.#redact(beginning), MAX_SHOWN_LENGTH) };
    const log = isRepeated ? atDebug(this.#log) : this.#log;
    log.warn({ ...this.#fields, reason, ...shown }, "stdout line skipped: not json-rpc");
  }

  /** Logs the number of suppressed lines, if there are any. */
  reportSuppressed(): void {
    if (this.#suppressed > 0) this.#log.warn({ ...this.#fields, count: this.#suppressed }, "more stdout lines skipped: not json-rpc");
    this.#suppressed = 0;
  }
}
