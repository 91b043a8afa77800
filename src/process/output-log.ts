import { hash } from "node:crypto";
import { StringDecoder } from "node:string_decoder";
import type { Context } from "../context.ts";
import { beginning, Code, shorten } from "../json/text.ts";
import { atDebug, type Log, type LogFields } from "../observe/log.ts";
import { MAX_SECRET_LENGTH } from "../observe/redact.ts";
import { Timer } from "../timers.ts";
import { causeOnStdout } from "./exit.ts";

/** At the end of a period, one line has the number and size of the lines left out. */
class OutputLimit {
  readonly #nowMs: () => number;
  readonly #periodMs: number;
  readonly #maxCost: number;
  readonly #report: (counts: LogFields) => void;
  readonly #timer: Timer;
  #endMs = -Infinity;
  #cost = 0;
  #leftOut: LogFields & { count: number; bytes: number } = { count: 0, bytes: 0 };

  constructor(context: Context, periodMs: number, maxCost: number, report: (counts: LogFields) => void) {
    [this.#nowMs, this.#periodMs, this.#maxCost, this.#report] = [context.nowMs, periodMs, maxCost, report];
    this.#timer = new Timer(context, () => this.report());
  }

  allows(cost: number, bytes: number, fields: LogFields): boolean {
    const nowMs = this.#nowMs();
    if (nowMs >= this.#endMs) {
      this.#endMs = nowMs + this.#periodMs;
      this.#cost = 0;
    }
    this.#cost += cost;
    if (this.#cost <= this.#maxCost) return true;
    const { count, bytes: earlier } = this.#leftOut;
    this.#leftOut = { ...fields, count: count + 1, bytes: earlier + bytes };
    this.#timer.set(this.#endMs);
    return false;
  }

  report(): void {
    this.#timer.clear();
    if (this.#leftOut.count > 0) this.#report(this.#leftOut);
    this.#leftOut = { count: 0, bytes: 0 };
  }
}

/** Estimate of the other fields of a log line. */
const FIELDS_BYTES = 200;
/** A server must not fill the disk, or replace all earlier lines of a log with a limited size. */
const STDERR_PERIOD_MS = 60_000;
const MAX_STDERR_BYTES = 25_000_000;
const NOISE_PERIOD_MS = 10_000;
const MAX_NOISE_LINES = 10;

/** The hashes of as many lines take about 200 kB. */
const MAX_LINES = 1000;
const MAX_COMPARED_LENGTH = 4096;
/** Equal exits are logged at powers of two and at multiples of this: one an hour with the longest pause of the defaults. */
const COUNT_INTERVAL = 256;

/** Until the server is ready, a line that an earlier start has printed is not logged again, and equal exits are counted. */
export class ServerLog {
  readonly stderrLimit: OutputLimit;
  readonly noiseLimit: OutputLimit;
  /** The log of starts has the level `debug` while exits are equal. */
  log: Log;
  readonly #log: Log;
  /** Hashes, since the server was last ready. */
  readonly #lines = new Set<string>();
  #isReady = false;
  /** The exit of a failed start, with the time of the first equal one, and their number. */
  #exit: { readonly key: string; readonly since: string; count: number } | undefined;

  constructor(context: Context) {
    const { log } = context;
    this.log = this.#log = log;
    this.stderrLimit = new OutputLimit(context, STDERR_PERIOD_MS, MAX_STDERR_BYTES, (counts) =>
      log.warn(counts, "stderr lines left out: over the limit of a minute"),
    );
    this.noiseLimit = new OutputLimit(context, NOISE_PERIOD_MS, MAX_NOISE_LINES, (counts) =>
      log.warn(counts, "more stdout lines skipped: not json-rpc"),
    );
  }

  /** True if a failed start is known to have printed this line too. Remembers the line. */
  isRepeated(line: string): boolean {
    if (this.#isReady) return false;
    const { size } = this.#lines;
    if (size < MAX_LINES) this.#lines.add(hash("sha1", unvarying(line), "base64"));
    // The first start is logged completely.
    return this.#exit !== undefined && this.#lines.size === size;
  }

  ready(): void {
    this.log = this.#log;
    this.#isReady = true;
    this.#exit = undefined;
    this.#lines.clear();
  }

  /** @param isExpected true in a crash loop, or if the exit is not a failure. */
  exited(fields: LogFields, stderrTail: readonly string[], isExpected: boolean): void {
    const wasReady = this.#isReady;
    this.#isReady = false;
    const { kind, exitCode, signal, reason } = fields;
    const key = wasReady ? "" : JSON.stringify([kind, exitCode, signal, ...[String(reason), ...stderrTail].map(unvarying)]);
    const exit = this.#exit;
    if (exit?.key === key) {
      this.#log.debug({ ...fields, stderrTail }, "mcp server exited");
      this.log = atDebug(this.#log);
      const count = ++exit.count;
      const isPowerOfTwo = (count & (count - 1)) === 0;
      if (isPowerOfTwo || count % COUNT_INTERVAL === 0) {
        this.#log.warn({ ...fields, count, since: exit.since }, "mcp server exited again");
      }
      return;
    }
    this.log = this.#log;
    if (!wasReady) this.#exit = { key, since: new Date().toISOString(), count: 1 };
    // The lines of a start may have been left out as known, but not those of a server that was ready.
    if (!isExpected) this.#log.warn({ ...fields, stderrTail }, "mcp server exited");
    else this.#log.info(wasReady ? fields : { ...fields, stderrTail }, "mcp server exited");
  }
}

/** Times and process ids differ each time. */
function unvarying(line: string): string {
  return line.slice(0, MAX_COMPARED_LENGTH).replaceAll(/\d+/g, "#");
}

/** Longer lines are logged in pieces, as container log drivers split them. */
const MAX_PIECE_LENGTH = 16 * 1024;
/** The limit of an incomplete line: long enough for a secret that is not complete yet. */
const MAX_PARTIAL_LENGTH = MAX_PIECE_LENGTH + MAX_SECRET_LENGTH;
const TAIL_LINES = 20;
const MAX_TAIL_LINE_LENGTH = 512;

const MAX_SHOWN_LENGTH = 200;

/** A part of a message, or a line with one: it has a brace, or begins like a member of an object or an array. `[INFO]` does not. */
const LIKE_MESSAGE = /[{}]|^\s*(?:["\]}]|\[\s*(?:["[\]]|$))/;

export class OutputLog {
  /** Shortened, with secrets masked, oldest first. */
  readonly stderrTail: string[] = [];
  isNoisy = false;
  noiseCause: string | undefined;
  /** The braces and brackets of a message over several lines that are open. 0 after each message that was read. */
  openBraces = 0;
  readonly #context: Context;
  readonly #fields: LogFields;
  readonly #serverLog: ServerLog;
  readonly #decoder = new StringDecoder("utf8");
  #partial = "";
  #isContinued = false;

  constructor(context: Context, fields: LogFields, serverLog: ServerLog) {
    [this.#context, this.#fields, this.#serverLog] = [context, fields, serverLog];
  }

  addStderr(chunk: Buffer): void {
    const { secrets } = this.#context;
    const lines = (this.#partial + this.#decoder.write(chunk)).split("\n");
    this.#partial = lines.pop() ?? "";
    // Secrets are masked before the cut.
    for (const line of lines) {
      this.#log(secrets.redact(line.endsWith("\r") ? line.slice(0, -1) : line), 0);
      this.#isContinued = false;
    }
    if (this.#partial.length > MAX_PARTIAL_LENGTH) this.#partial = this.#log(secrets.redact(this.#partial), MAX_PARTIAL_LENGTH);
  }

  /** Counts lines after the first ones of each period. @param reason undefined if a message on the line was read nevertheless. */
  addNoise(line: string, reason?: string): void {
    const { counters, log, secrets } = this.#context;
    counters.dropped.noiseLines++;
    if (reason !== undefined) {
      this.isNoisy = true;
      this.noiseCause ??= causeOnStdout(line, reason);
    }
    const isPart = this.openBraces > 0 || LIKE_MESSAGE.test(line);
    if (isPart) this.openBraces = openBracesAfter(line, this.openBraces);
    const bytes = Buffer.byteLength(line);
    if (this.#serverLog.isRepeated(line) || !this.#serverLog.noiseLimit.allows(1, bytes, this.#fields)) return;
    // Messages are not logged, nor are parts of them.
    const shown = isPart
      ? { bytes }
      : { line: shorten(secrets.redact(line.slice(0, MAX_SHOWN_LENGTH + MAX_SECRET_LENGTH)), MAX_SHOWN_LENGTH) };
    const fields = { ...this.#fields, ...shown };
    if (reason === undefined) log.warn(fields, "stdout line read: text before a message");
    else log.warn({ ...fields, reason }, "stdout line skipped: not json-rpc");
  }

  end(): void {
    this.addStderr(Buffer.from("\n"));
    this.#serverLog.stderrLimit.report();
    this.#serverLog.noiseLimit.report();
  }

  /** @returns the rest, of at most `restLength` UTF-16 units. */
  #log(text: string, restLength: number): string {
    let rest = text;
    while (rest.length > restLength) {
      const piece = beginning(rest, MAX_PIECE_LENGTH);
      rest = rest.slice(piece.length);
      const bytes = Buffer.byteLength(piece);
      const partial = this.#isContinued || rest !== "" ? { isPartial: true } : undefined;
      if (!this.#serverLog.isRepeated(piece) && this.#serverLog.stderrLimit.allows(bytes + FIELDS_BYTES, bytes, this.#fields))
        this.#context.log.info({ ...this.#fields, stream: "stderr", ...partial }, piece);
      // The cause of an exit is in the last lines, logged or not.
      if (!this.#isContinued && this.stderrTail.push(shorten(piece, MAX_TAIL_LINE_LENGTH)) > TAIL_LINES) this.stderrTail.shift();
      this.#isContinued = true;
    }
    return rest;
  }
}

/** Braces in strings count too, so the number is an estimate. */
function openBracesAfter(line: string, before: number): number {
  let open = before;
  for (let index = 0; index < line.length; index++) {
    const code = line.charCodeAt(index);
    if (code === Code.openBrace || code === Code.openBracket) open++;
    else if ((code === Code.closeBrace || code === Code.closeBracket) && open > 0) open--;
  }
  return open;
}
