import type { Counters } from "../../observability/counters.ts";
import { shorten } from "../../json/text.ts";
import { Code } from "../../json/tokens.ts";
import { atDebug, type Log, type LogFields } from "../../observability/log.ts";
import { MAX_SECRET_LENGTH, type Redact } from "../../observability/redact.ts";
import { NO_VERSION } from "../../protocol/message.ts";
import { OTHER_TEXT } from "../../protocol/server-line.ts";
import { OutputLimit } from "./output-limit.ts";

const MAX_SHOWN_LENGTH = 200;

const LIMIT = { periodMs: 10_000, maxCost: 10 };

/** A part of a message, or a line with one: it has a brace, or begins like a member of an object or an array. `[INFO]` does not. */
const LIKE_MESSAGE = /[{}]|^\s*(?:["\]}]|\[\s*(?:["[\]]|$))/;

/** The ways in which a server writes messages that the sidecar cannot read. */
export type NoiseSign = "framing" | "several-lines" | "text-before" | "not-json" | "no-version";
const SIGN_LENGTH = 1000;

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
  readonly #limit: OutputLimit;
  /** Lines that are logged at the level debug do not use up the limit of the others. */
  readonly #repeatedLimit: OutputLimit;
  readonly #isRepeated: (line: string) => boolean;
  #isNoisy = false;
  /** The braces and brackets that the lines so far have opened and not closed: a message over several lines. */
  #openBraces = 0;
  #sign: NoiseSign | undefined;

  constructor({ counters, log, fields, redact, nowMs, isRepeated = () => false }: StdoutNoiseOptions) {
    this.#counts = counters.dropped;
    this.#log = log;
    this.#fields = fields;
    this.#redact = redact;
    const limitFor = (at: Log): OutputLimit =>
      new OutputLimit(LIMIT, nowMs, (counts) => at.warn(counts, "more stdout lines skipped: not json-rpc"));
    this.#limit = limitFor(log);
    this.#repeatedLimit = limitFor(atDebug(log));
    this.#isRepeated = isRepeated;
  }

  /** True if there was any such line. */
  get isNoisy(): boolean {
    return this.#isNoisy;
  }

  /** The first way in which the server has written a message that the sidecar cannot read. */
  get sign(): NoiseSign | undefined {
    return this.#sign;
  }

  /** Must be called for each message that was read: no part of another one can precede it. */
  onMessage(): void {
    this.#openBraces = 0;
  }

  report(line: string, reason: string): void {
    this.#isNoisy = true;
    this.#sign ??= signOf(line.slice(0, SIGN_LENGTH), reason);
    this.#show(line, (log, shown) => log.warn({ ...shown, reason }, "stdout line skipped: not json-rpc"));
  }

  /** Reports other text before a message that was read nevertheless. */
  reportTextBefore(line: string): void {
    this.#show(line, (log, shown) => log.warn(shown, "stdout line read: text before a message"));
  }

  /** Logs the number of suppressed lines, if there are any. */
  reportSuppressed(): void {
    this.#limit.report();
    this.#repeatedLimit.report();
  }

  #show(line: string, write: (log: Log, shown: LogFields) => void): void {
    this.#counts.noiseLines++;
    const isPart = this.#openBraces > 0 || LIKE_MESSAGE.test(line);
    if (isPart) this.#openBraces = openBracesAfter(line, this.#openBraces);
    const isRepeated = this.#isRepeated(line);
    const bytes = Buffer.byteLength(line);
    if (!(isRepeated ? this.#repeatedLimit : this.#limit).allows(1, bytes, this.#fields)) return;
    // Messages are not logged, nor are parts of them.
    const shown = isPart
      ? { bytes }
      : { line: shorten(this.#redact(line.slice(0, MAX_SHOWN_LENGTH + MAX_SECRET_LENGTH)), MAX_SHOWN_LENGTH) };
    write(isRepeated ? atDebug(this.#log) : this.#log, { ...this.#fields, ...shown });
  }
}

/** Counts those in strings too, so the number is an estimate. */
function openBracesAfter(line: string, before: number): number {
  let open = before;
  for (let index = 0; index < line.length; index++) {
    const code = line.charCodeAt(index);
    if (code === Code.openBrace || code === Code.openBracket) open++;
    else if ((code === Code.closeBrace || code === Code.closeBracket) && open > 0) open--;
  }
  return open;
}

function signOf(line: string, reason: string): NoiseSign | undefined {
  if (/^Content-Length:\s*\d/i.test(line)) return "framing";
  if (/^\s*"jsonrpc"\s*:/.test(line)) return "several-lines";
  // Lines of a log may have members named id or result.
  if (/["']jsonrpc["']\s*:/.test(line) && reason !== NO_VERSION) return reason === OTHER_TEXT ? "text-before" : "not-json";
  // Lines of a log may have such members, but hardly the id of the handshake.
  return reason === NO_VERSION && /"id"\s*:\s*"?0\b/.test(line) && /"(?:result|error)"\s*:/.test(line) ? "no-version" : undefined;
}
