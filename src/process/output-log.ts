import { hash } from "node:crypto";
import { StringDecoder } from "node:string_decoder";
import type { Context } from "../context.ts";
import { beginning, Code, shorten } from "../json/text.ts";
import { atDebug, type Log, type LogFields } from "../observe/log.ts";
import { MAX_SECRET_LENGTH } from "../observe/redact.ts";
import { Timer } from "../timers.ts";
import { causeOnStdout } from "./exit.ts";

/** Limits the log of a server's output. When a period ends, one line has the number and size of the lines that were left out. */
class OutputLimit {
  readonly #nowMs: () => number;
  readonly #periodMs: number;
  readonly #maxCost: number;
  readonly #report: (counts: LogFields) => void;
  /** The time of the report. */
  readonly #timer: Timer;
  #endMs = Number.NEGATIVE_INFINITY;
  #cost = 0;
  #leftOut: LogFields & { count: number; bytes: number } = { count: 0, bytes: 0 };

  /** @param maxCost in units that the caller chooses. */
  constructor({ nowMs, timers }: Context, periodMs: number, maxCost: number, report: (counts: LogFields) => void) {
    [this.#nowMs, this.#periodMs, this.#maxCost, this.#report] = [nowMs, periodMs, maxCost, report];
    this.#timer = new Timer(timers, () => this.report());
  }

  /** True if a line may be logged. To be called once for each line. @param fields those of its server. */
  allows(cost: number, bytes: number, fields: LogFields): boolean {
    const nowMs = this.#nowMs();
    if (nowMs >= this.#endMs) {
      this.report();
      this.#endMs = nowMs + this.#periodMs;
      this.#cost = 0;
    }
    // After the first line that does not fit, shorter ones would only be confusing.
    this.#cost += cost;
    if (this.#cost <= this.#maxCost) return true;
    const { count, bytes: earlier } = this.#leftOut;
    this.#leftOut = { ...fields, count: count + 1, bytes: earlier + bytes };
    this.#timer.set(this.#endMs);
    return false;
  }

  /** Logs the number of lines that were left out, if there are any. */
  report(): void {
    this.#timer.clear();
    if (this.#leftOut.count > 0) this.#report(this.#leftOut);
    this.#leftOut = { count: 0, bytes: 0 };
  }
}

/** Each line of a server's stderr counts with these bytes for the other fields of the log line. */
const FIELDS_BYTES = 200;
/** The stderr that is logged, so that a server cannot fill the disk, or replace all earlier lines of a log with a limited size. */
const STDERR_PERIOD_MS = 60_000;
const MAX_STDERR_BYTES = 25_000_000;
const NOISE_PERIOD_MS = 10_000;
const MAX_NOISE_LINES = 10;

/** The number of different lines that are remembered. Their hashes take about 200 kB. */
const MAX_LINES = 1000;
const MAX_COMPARED_LENGTH = 4096;
/** Besides the powers of two, each multiple of this number of equal exits is logged: one an hour with the longest pause of the defaults. */
const COUNT_INTERVAL = 256;

/**
 * Logs the starts and exits of one server, and limits its output. A server that fails at every start would fill the log with the same lines.
 * So a line that an earlier start has printed is not logged again, and equal exits are counted, until the server is ready.
 */
export class ServerLog {
  readonly stderrLimit: OutputLimit;
  readonly noiseLimit: OutputLimit;
  /** The logger of starts: at the level `debug` while exits are equal. */
  log: Log;
  readonly #log: Log;
  /** Hashes of the lines of the starts since the server was last ready. */
  readonly #lines = new Set<string>();
  #isReady = false;
  /** The last exit of a failed start, the time of the first one that was equal, and their number. */
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

  /** True if a start that failed had printed this line too, as far as is known. Remembers the line. */
  isRepeated(line: string): boolean {
    if (this.#isReady) return false;
    const { size } = this.#lines;
    if (size < MAX_LINES) this.#lines.add(hash("sha1", unvarying(line), "base64"));
    // The first start is logged completely.
    return this.#exit !== undefined && this.#lines.size === size;
  }

  /** Forgets the starts that failed. */
  ready(): void {
    this.log = this.#log;
    this.#isReady = true;
    this.#exit = undefined;
    this.#lines.clear();
  }

  /** @param isExpected true in a crash loop, or if the exit is no failure. */
  exited(fields: LogFields, stderrTail: readonly string[], isExpected: boolean): void {
    const wasReady = this.#isReady;
    this.#isReady = false;
    const { kind, exitCode, signal, reason } = fields;
    // No exit has an empty key.
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

/** Returns the beginning of a line without its numbers, such as times and process ids, which differ each time. */
function unvarying(line: string): string {
  return line.slice(0, MAX_COMPARED_LENGTH).replaceAll(/\d+/g, "#");
}

/** Longer lines are logged in pieces. Container log drivers split lines at the same length. */
const MAX_PIECE_LENGTH = 16 * 1024;
/** The part of an incomplete line that is kept. It is long enough to hold a secret that is not complete yet. */
const MAX_PARTIAL_LENGTH = MAX_PIECE_LENGTH + MAX_SECRET_LENGTH;
const TAIL_LINES = 20;
const MAX_TAIL_LINE_LENGTH = 512;

const MAX_SHOWN_LENGTH = 200;

/** A part of a message, or a line with one: it has a brace, or begins like a member of an object or an array. `[INFO]` does not. */
const LIKE_MESSAGE = /[{}]|^\s*(?:["\]}]|\[\s*(?:["[\]]|$))/;

/** Logs the output of one process that is not JSON-RPC, and keeps what explains an exit. */
export class OutputLog {
  /** The last lines of stderr, shortened, with secrets masked, oldest first. */
  readonly stderrTail: string[] = [];
  /** True if there was any noise. */
  isNoisy = false;
  /** The first cause that its noise has shown, for people. */
  noiseCause: string | undefined;
  /**
   * The braces and brackets that the lines so far have opened and not closed: a message over several lines. To be set to 0 for each message
   * that was read: no part of another one can precede it.
   */
  openBraces = 0;
  readonly #context: Context;
  readonly #fields: LogFields;
  readonly #serverLog: ServerLog;
  readonly #decoder = new StringDecoder("utf8");
  #partial = "";
  #isContinued = false;

  /** @param fields those of its lines. */
  constructor(context: Context, fields: LogFields, serverLog: ServerLog) {
    [this.#context, this.#fields, this.#serverLog] = [context, fields, serverLog];
  }

  /** Copies stderr to the log, line by line. */
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

  /**
   * Logs a line of stdout. The first ones of each period are shown, shortened; the others are counted.
   *
   * @param reason undefined if a message on the line was read nevertheless.
   */
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

  /** Logs the last line of stderr, even without a newline, and the numbers of lines that were left out. */
  end(): void {
    this.addStderr(Buffer.from("\n"));
    this.#serverLog.stderrLimit.report();
    this.#serverLog.noiseLimit.report();
  }

  /** Logs pieces of a line of stderr until at most `restLength` UTF-16 units are left, and returns the rest. */
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
