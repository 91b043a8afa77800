import { hash } from "node:crypto";
import { StringDecoder } from "node:string_decoder";
import type { Context } from "../context.ts";
import { beginning, Code, shorten } from "../json/text.ts";
import { NO_VERSION } from "../mcp/message.ts";
import { OTHER_TEXT } from "../mcp/server-line.ts";
import { atDebug, type Log, type LogFields } from "../observe/log.ts";
import { MAX_SECRET_LENGTH } from "../observe/redact.ts";
import { Timer } from "../timers.ts";

/** Limits the log of a server's output. When a period ends, one line has the number and size of the lines that were left out. */
class OutputLimit {
  /** The logger of the lines that it allows. */
  readonly log: Log;
  readonly #nowMs: () => number;
  readonly #periodMs: number;
  readonly #maxCost: number;
  readonly #report: (log: Log, fields: LogFields) => void;
  #periodEndMs = Number.NEGATIVE_INFINITY;
  #cost = 0;
  #count = 0;
  #bytes = 0;
  #fields: LogFields = {};
  /** The time of the report. */
  readonly #timer: Timer;

  /** @param maxCost in units that the caller chooses. @param report logs the number and size of the lines that were left out. */
  constructor(log: Log, { nowMs, timers }: Context, periodMs: number, maxCost: number, report: (log: Log, fields: LogFields) => void) {
    this.log = log;
    this.#nowMs = nowMs;
    this.#timer = new Timer(timers, () => this.report());
    this.#periodMs = periodMs;
    this.#maxCost = maxCost;
    this.#report = report;
  }

  /**
   * True if a line may be logged. To be called once for each line.
   *
   * @param bytes its length. @param fields those of its server.
   */
  allows(cost: number, bytes: number, fields: LogFields): boolean {
    const nowMs = this.#nowMs();
    if (nowMs >= this.#periodEndMs) {
      this.report();
      this.#periodEndMs = nowMs + this.#periodMs;
      this.#cost = 0;
    }
    // After the first line that does not fit, shorter ones would only be confusing.
    if (this.#count === 0 && this.#cost + cost <= this.#maxCost) {
      this.#cost += cost;
      return true;
    }
    this.#cost = this.#maxCost;
    this.#count++;
    this.#bytes += bytes;
    this.#fields = fields;
    this.#timer.set(this.#periodEndMs);
    return false;
  }

  /** Logs the number of lines that were left out, if there are any. */
  report(): void {
    this.#timer.clear();
    if (this.#count === 0) return;
    this.#report(this.log, { ...this.#fields, count: this.#count, bytes: this.#bytes });
    this.#count = this.#bytes = 0;
  }
}

/** Each line of a server's stderr counts with these bytes for the other fields of the log line. */
const FIELDS_BYTES = 200;
/** The stderr that is logged, so that a server cannot fill the disk, or replace all earlier lines of a log with a limited size. */
const STDERR_PERIOD_MS = 60_000;
const MAX_STDERR_BYTES = 25_000_000;

/** The number of different lines that are remembered. Their hashes take about 200 kB. */
const MAX_LINES = 1000;
const MAX_COMPARED_LENGTH = 4096;
/** The longest time without a count of exits that repeat. */
const COUNT_INTERVAL_MS = 60 * 60 * 1000;

/** Parts of a line that differ between two starts that fail alike: addresses in memory, UUIDs, and numbers, as in times, durations and process ids. */
const VARYING_PARTS = /\b0x[0-9a-f]+\b|\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b|\d+(?:[.,:_-]\d+)*(?: ?(?:[mnµ]?s|seconds?)\b)?/gi;

/**
 * Logs the starts and exits of one server. A server that fails at every start would fill the log with the same lines. So lines and exits
 * that repeat since the server was last ready are logged at the level `debug`, and the exits are counted.
 */
export class StartLog {
  readonly #log: Log;
  readonly #nowMs: () => number;
  /** The limits for the stderr of all generations. Lines that repeat have their own, since most logs do not have them. */
  readonly stderrLimit: OutputLimit;
  readonly repeatedStderrLimit: OutputLimit;
  /** Hashes of the lines of earlier starts that failed, and of the present one. */
  readonly #known = new Set<string>();
  readonly #present = new Set<string>();
  #isReady = false;
  /** The last exit of a failed start, the time of the first one that was alike, and their number. */
  #exit:
    | { readonly key: string; readonly since: string; fields: LogFields; count: number; countedMs: number; isCounted: boolean }
    | undefined;

  constructor(context: Context) {
    const { log, nowMs } = context;
    this.#log = log;
    this.#nowMs = nowMs;
    const report = (at: Log, counts: LogFields): void => at.warn(counts, "stderr lines left out: over the limit of a minute");
    this.stderrLimit = new OutputLimit(log, context, STDERR_PERIOD_MS, MAX_STDERR_BYTES, report);
    this.repeatedStderrLimit = new OutputLimit(atDebug(log), context, STDERR_PERIOD_MS, MAX_STDERR_BYTES, report);
  }

  /** The logger of starts: at the level `debug` while exits are alike. */
  get log(): Log {
    return (this.#exit?.count ?? 0) > 1 ? atDebug(this.#log) : this.#log;
  }

  /** True if a start that failed had printed this line too. Remembers the line. */
  isRepeated(line: string): boolean {
    if (this.#isReady) return false;
    // Nothing is known of the lines after the limit. Those of the first start are logged.
    if (this.#known.size >= MAX_LINES) return true;
    const key = hash("sha1", unvarying(line), "base64");
    if (this.#known.has(key)) return true;
    if (this.#present.size < MAX_LINES) this.#present.add(key);
    return false;
  }

  /** Forgets the starts that failed. */
  ready(): void {
    this.#count();
    this.#isReady = true;
    this.#exit = undefined;
    this.#known.clear();
    this.#present.clear();
  }

  /** @param isExpected true in a crash loop, or if the exit is no failure. */
  exited(fields: LogFields, stderrTail: readonly string[], isExpected: boolean): void {
    const wasReady = this.#isReady;
    this.#isReady = false;
    if (!wasReady && this.#isLikeBefore(fields, stderrTail)) return;
    // Lines of stderr may have been omitted as known, but not those of a server that was ready.
    if (!isExpected) this.#log.warn({ ...fields, stderrTail }, "mcp server exited");
    else this.#log.info(wasReady ? fields : { ...fields, stderrTail }, "mcp server exited");
  }

  /** Logs the exit that the sidecar has requested. */
  ended(fields: LogFields): void {
    this.#count();
    this.#log.info(fields, "mcp server ended");
  }

  /** Logs the number of exits that were alike, if it has grown since it was last logged. */
  #count(): void {
    const exit = this.#exit;
    if (exit === undefined || exit.isCounted) return;
    exit.isCounted = true;
    exit.countedMs = this.#nowMs();
    const { fields, count, since } = exit;
    this.#log.warn({ ...fields, count, since }, "mcp server exited again");
  }

  /** Counts the exit of a failed start if it is like the one before. Remembers it otherwise. */
  #isLikeBefore(fields: LogFields, stderrTail: readonly string[]): boolean {
    for (const line of this.#present) if (this.#known.size < MAX_LINES) this.#known.add(line);
    this.#present.clear();
    const { kind, exitCode, signal, reason } = fields;
    const key = JSON.stringify([kind, exitCode, signal, ...[String(reason), ...stderrTail].map(unvarying)]);
    const exit = this.#exit;
    if (exit?.key !== key) {
      this.#count();
      this.#exit = { key, since: new Date().toISOString(), fields, count: 1, countedMs: this.#nowMs(), isCounted: true };
      return false;
    }
    this.#log.debug({ ...fields, stderrTail }, "mcp server exited");
    exit.fields = fields;
    exit.count++;
    exit.isCounted = false;
    const isPowerOfTwo = (exit.count & (exit.count - 1)) === 0;
    if (isPowerOfTwo || this.#nowMs() - exit.countedMs >= COUNT_INTERVAL_MS) this.#count();
    return true;
  }
}

/** Returns the beginning of a line without the parts that differ each time. */
function unvarying(line: string): string {
  return line.slice(0, MAX_COMPARED_LENGTH).replaceAll(VARYING_PARTS, "#");
}

/** Longer lines are logged in pieces. Container log drivers split lines at the same length. */
const MAX_PIECE_LENGTH = 16 * 1024;
/** The part of an incomplete line that is kept. It is long enough to hold a secret that is not complete yet. */
const MAX_PARTIAL_LENGTH = MAX_PIECE_LENGTH + MAX_SECRET_LENGTH;
const TAIL_LINES = 20;
const MAX_TAIL_LINE_LENGTH = 512;

const NOISE_PERIOD_MS = 10_000;
const MAX_NOISE_LINES = 10;
const MAX_SHOWN_LENGTH = 200;

/** A part of a message, or a line with one: it has a brace, or begins like a member of an object or an array. `[INFO]` does not. */
const LIKE_MESSAGE = /[{}]|^\s*(?:["\]}]|\[\s*(?:["[\]]|$))/;

/** The ways in which a server writes messages that the sidecar cannot read. */
export type NoiseSign = "framing" | "several-lines" | "text-before" | "not-json" | "no-version";
const SIGN_LENGTH = 1000;

/** Logs the output of one process that is not JSON-RPC, and keeps what explains an exit. */
export class OutputLog {
  /** The last lines of stderr, shortened, with secrets masked, oldest first. */
  readonly stderrTail: string[] = [];
  /** True if there was any noise. */
  isNoisy = false;
  /** The first way in which the server has written a message that the sidecar cannot read. */
  sign: NoiseSign | undefined;
  /**
   * The braces and brackets that the lines so far have opened and not closed: a message over several lines. To be set to 0 for each message
   * that was read: no part of another one can precede it.
   */
  openBraces = 0;
  readonly #context: Context;
  readonly #fields: LogFields;
  readonly #startLog: StartLog;
  readonly #decoder = new StringDecoder("utf8");
  #partial = "";
  #isContinued = false;
  readonly #noiseLimit: OutputLimit;
  readonly #repeatedNoiseLimit: OutputLimit;

  /** @param fields those of its lines. */
  constructor(context: Context, fields: LogFields, startLog: StartLog) {
    this.#context = context;
    this.#fields = fields;
    this.#startLog = startLog;
    const report = (at: Log, counts: LogFields): void => at.warn(counts, "more stdout lines skipped: not json-rpc");
    this.#noiseLimit = new OutputLimit(context.log, context, NOISE_PERIOD_MS, MAX_NOISE_LINES, report);
    this.#repeatedNoiseLimit = new OutputLimit(atDebug(context.log), context, NOISE_PERIOD_MS, MAX_NOISE_LINES, report);
  }

  /** Copies stderr to the log, line by line. */
  addStderr(chunk: Buffer): void {
    const { secrets } = this.#context;
    const lines = (this.#partial + this.#decoder.write(chunk)).split("\n");
    this.#partial = lines.pop() ?? "";
    for (const line of lines) {
      const rest = this.#cut(secrets.redact(line.endsWith("\r") ? line.slice(0, -1) : line), MAX_PIECE_LENGTH);
      if (rest !== "") this.#piece(rest, this.#isContinued);
      this.#isContinued = false;
    }
    // Secrets are masked before the cut.
    if (this.#partial.length > MAX_PARTIAL_LENGTH) this.#partial = this.#cut(secrets.redact(this.#partial), MAX_PARTIAL_LENGTH);
  }

  /**
   * Logs a line of stdout. The first ones of each period are shown, shortened; the others are counted.
   *
   * @param reason undefined if a message on the line was read nevertheless.
   */
  addNoise(line: string, reason?: string): void {
    this.#context.counters.dropped.noiseLines++;
    if (reason !== undefined) {
      this.isNoisy = true;
      this.sign ??= signOf(line.slice(0, SIGN_LENGTH), reason);
    }
    const isPart = this.openBraces > 0 || LIKE_MESSAGE.test(line);
    if (isPart) this.openBraces = openBracesAfter(line, this.openBraces);
    const limit = this.#startLog.isRepeated(line) ? this.#repeatedNoiseLimit : this.#noiseLimit;
    const bytes = Buffer.byteLength(line);
    if (!limit.allows(1, bytes, this.#fields)) return;
    // Messages are not logged, nor are parts of them.
    const { secrets } = this.#context;
    const shown = isPart
      ? { bytes }
      : { line: shorten(secrets.redact(line.slice(0, MAX_SHOWN_LENGTH + MAX_SECRET_LENGTH)), MAX_SHOWN_LENGTH) };
    const fields = { ...this.#fields, ...shown };
    if (reason === undefined) limit.log.warn(fields, "stdout line read: text before a message");
    else limit.log.warn({ ...fields, reason }, "stdout line skipped: not json-rpc");
  }

  /** Logs the last line of stderr, even without a newline, and the numbers of lines that were left out. */
  end(): void {
    this.addStderr(Buffer.from("\n"));
    const { stderrLimit, repeatedStderrLimit } = this.#startLog;
    for (const limit of [stderrLimit, repeatedStderrLimit, this.#noiseLimit, this.#repeatedNoiseLimit]) limit.report();
  }

  /** Logs pieces of stderr until at most `restLength` UTF-16 units are left, and returns the rest. */
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
    const { stderrLimit, repeatedStderrLimit } = this.#startLog;
    const limit = this.#startLog.isRepeated(text) ? repeatedStderrLimit : stderrLimit;
    if (limit.allows(bytes + FIELDS_BYTES, bytes, this.#fields))
      limit.log.info({ ...this.#fields, stream: "stderr", ...(isPartial ? { isPartial } : {}) }, text);
    // The cause of an exit is in the last lines, logged or not.
    if (this.#isContinued) return;
    this.stderrTail.push(shorten(text, MAX_TAIL_LINE_LENGTH));
    if (this.stderrTail.length > TAIL_LINES) this.stderrTail.shift();
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
