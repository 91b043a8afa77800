import { StringDecoder } from "node:string_decoder";
import { beginning, shorten } from "../../json/text.ts";
import { atDebug, type Log, type LogFields } from "../../observability/log.ts";
import { MAX_SECRET_LENGTH, type Redact } from "../../observability/redact.ts";
import { OutputLimit } from "./output-limit.ts";

/** Longer lines are logged in pieces. Container log drivers split lines at the same length. */
const MAX_PIECE_LENGTH = 16 * 1024;
const TAIL_LINES = 20;
const MAX_TAIL_LINE_LENGTH = 512;

/** Each line of a server's stderr counts with these bytes for the other fields of the log line. */
const FIELDS_BYTES = 200;
/** The stderr that is logged, so that a server cannot fill the disk, or replace all earlier lines of a log with a limited size. */
const LIMIT = { periodMs: 60_000, maxCost: 25_000_000 };

/** The limits of one server, for all its generations. Lines that repeat have their own, since most logs do not have them. */
export class StderrLimits {
  readonly shown: OutputLimit;
  readonly repeated: OutputLimit;

  constructor(log: Log, nowMs: () => number) {
    const limitFor = (at: Log): OutputLimit =>
      new OutputLimit(LIMIT, nowMs, (counts) => at.warn(counts, "stderr lines left out: over the limit of a minute"));
    [this.shown, this.repeated] = [limitFor(log), limitFor(atDebug(log))];
  }
}

/** Copies the MCP server's stderr to the log, line by line, and keeps its tail to explain an exit. */
export class StderrLog {
  readonly #log: Log;
  readonly #fields: LogFields;
  readonly #redact: Redact;
  readonly #limits: StderrLimits;
  readonly #isRepeated: (line: string) => boolean;
  readonly #decoder = new StringDecoder("utf8");
  readonly #tail: string[] = [];
  #partial = "";
  #isContinued = false;

  /** @param isRepeated true for a line that an earlier start had printed too. */
  constructor(log: Log, fields: LogFields, redact: Redact, limits: StderrLimits, isRepeated: (line: string) => boolean = () => false) {
    this.#log = log;
    this.#fields = fields;
    this.#limits = limits;
    this.#redact = redact;
    this.#isRepeated = isRepeated;
  }

  /** The last lines, shortened, oldest first. */
  get tail(): readonly string[] {
    return this.#tail;
  }

  push(chunk: Buffer): void {
    this.#partial += this.#decoder.write(chunk);
    let from = 0;
    for (;;) {
      const newline = this.#partial.indexOf("\n", from);
      if (newline === -1) break;
      this.#line(this.#partial.slice(from, newline));
      from = newline + 1;
    }
    this.#partial = this.#partial.slice(from);
    if (this.#partial.length > MAX_PIECE_LENGTH + MAX_SECRET_LENGTH) {
      // Secrets are masked before the cut. The rest is long enough to hold a secret that is not complete yet.
      this.#partial = this.#cut(this.#redact(this.#partial), MAX_PIECE_LENGTH + MAX_SECRET_LENGTH);
    }
  }

  end(): void {
    const rest = this.#partial + this.#decoder.end();
    this.#partial = "";
    if (rest !== "") this.#line(rest);
    this.#limits.shown.report();
    this.#limits.repeated.report();
  }

  #line(line: string): void {
    const rest = this.#cut(this.#redact(line.endsWith("\r") ? line.slice(0, -1) : line), MAX_PIECE_LENGTH);
    if (rest !== "") this.#piece(rest, this.#isContinued);
    this.#isContinued = false;
  }

  /** Logs pieces until at most `restLength` UTF-16 units are left, and returns the rest. */
  #cut(text: string, restLength: number): string {
    let rest = text;
    while (rest.length > restLength) {
      const piece = beginning(rest, MAX_PIECE_LENGTH);
      this.#piece(piece, true);
      this.#isContinued = true;
      rest = rest.slice(piece.length);
    }
    return rest;
  }

  #piece(text: string, isPartial: boolean): void {
    const bytes = Buffer.byteLength(text);
    // Most of a flood is left out, and needs no comparison with earlier starts.
    const isRepeated = !this.#limits.shown.isReached && this.#isRepeated(text);
    const limit = isRepeated ? this.#limits.repeated : this.#limits.shown;
    if (limit.allows(bytes + FIELDS_BYTES, bytes, this.#fields)) {
      const fields = { ...this.#fields, stream: "stderr", ...(isPartial ? { isPartial } : {}) };
      this.#log[isRepeated ? "debug" : "info"](fields, text);
    }
    // The cause of an exit is in the last lines, logged or not.
    if (this.#isContinued) return;
    this.#tail.push(shorten(text, MAX_TAIL_LINE_LENGTH));
    if (this.#tail.length > TAIL_LINES) this.#tail.shift();
  }
}
