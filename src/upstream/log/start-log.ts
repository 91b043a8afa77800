import { hash } from "node:crypto";
import { atDebug, type Log, type LogFields } from "../../observability/log.ts";
import { StderrLimits } from "./stderr-log.ts";

/** The number of different lines that are remembered. Their hashes take about 200 kB. */
const MAX_LINES = 1000;
const MAX_COMPARED_LENGTH = 4096;
/** The longest time without a count of exits that repeat. */
const COUNT_INTERVAL_MS = 60 * 60 * 1000;

/** Parts of a line that differ between two starts that fail alike: times, durations, process ids, addresses, random ids. */
const VARYING_PARTS: readonly RegExp[] = [
  /\d{4}-\d\d-\d\d(?:[T_ ]\d\d[:_]\d\d[:_]\d\d(?:[.,_]\d+)?Z?)?/g,
  /\b\d\d:\d\d:\d\d(?:[.,]\d+)?/g,
  /\b1\d{9}(?:\d{3}|\.\d+)?\b/g,
  /\b\d+(?:\.\d+)? ?(?:ns|[mµ]?s|seconds?)\b/g,
  /\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b/gi,
  /\b0x[0-9a-f]+\b/gi,
  /(?<=\b(?:pid|process)[ =:#]{1,2}|\(node:|\w\[)\d+\b/gi,
];

interface RepeatedExit {
  readonly key: string;
  readonly since: string;
  fields: LogFields;
  count: number;
  countedMs: number;
  isCounted: boolean;
}

export interface ExitEntry {
  readonly fields: LogFields;
  readonly stderrTail: readonly string[];
  /** True in a crash loop, or if the exit is no failure. */
  readonly isExpected: boolean;
}

/**
 * Logs the starts and exits of one server. A server that fails at every start would fill the log with the same lines. So lines and exits
 * that repeat since the server was last ready are logged at the level `debug`, and the exits are counted.
 */
export class StartLog {
  readonly #log: Log;
  readonly #nowMs: () => number;
  readonly stderrLimits: StderrLimits;
  /** Hashes of the lines of earlier starts that failed, and of the present one. */
  readonly #known = new Set<string>();
  readonly #present = new Set<string>();
  #isReady = false;
  #exit: RepeatedExit | undefined;

  constructor(log: Log, nowMs: () => number) {
    this.#log = log;
    this.#nowMs = nowMs;
    this.stderrLimits = new StderrLimits(log, nowMs);
  }

  started(fields: LogFields): void {
    this.#unlessRepeating.info(fields, "mcp server started");
  }

  /** True if a start that failed had printed this line too. Remembers the line. */
  isRepeated(line: string): boolean {
    if (this.#isReady) return false;
    const key = hash("sha1", unvarying(line), "base64");
    if (this.#known.has(key)) return true;
    if (this.#present.size < MAX_LINES) this.#present.add(key);
    // Nothing is known of the lines after the limit. Those of the first start are logged.
    return this.#known.size >= MAX_LINES;
  }

  /** Forgets the starts that failed. */
  ready(): void {
    this.#count();
    this.#isReady = true;
    this.#exit = undefined;
    this.#known.clear();
    this.#present.clear();
  }

  exited(entry: ExitEntry): void {
    if (this.#isReady) this.#logExit(entry, false);
    else this.#failedStart(entry);
    this.#isReady = false;
  }

  willRestart(fields: LogFields): void {
    this.#unlessRepeating.info(fields, "mcp server will be restarted");
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

  #failedStart(entry: ExitEntry): void {
    const { fields, stderrTail } = entry;
    for (const line of this.#present) if (this.#known.size < MAX_LINES) this.#known.add(line);
    this.#present.clear();
    const key = exitKey(fields, stderrTail);
    if (this.#exit?.key === key) {
      this.#log.debug({ ...fields, stderrTail }, "mcp server exited");
      this.#countAgain(this.#exit, fields);
      return;
    }
    this.#count();
    this.#exit = { key, since: new Date().toISOString(), fields, count: 1, countedMs: this.#nowMs(), isCounted: true };
    // The lines of stderr may have been omitted as known.
    this.#logExit(entry, true);
  }

  #logExit({ fields, stderrTail, isExpected }: ExitEntry, isTailNeeded: boolean): void {
    if (!isExpected) this.#log.warn({ ...fields, stderrTail }, "mcp server exited");
    else this.#log.info(isTailNeeded ? { ...fields, stderrTail } : fields, "mcp server exited");
  }

  #countAgain(exit: RepeatedExit, fields: LogFields): void {
    exit.fields = fields;
    exit.count++;
    exit.isCounted = false;
    const isPowerOfTwo = (exit.count & (exit.count - 1)) === 0;
    if (isPowerOfTwo || this.#nowMs() - exit.countedMs >= COUNT_INTERVAL_MS) this.#count();
  }

  get #unlessRepeating(): Log {
    return (this.#exit?.count ?? 0) > 1 ? atDebug(this.#log) : this.#log;
  }
}

function exitKey({ kind, exitCode, signal, reason }: LogFields, stderrTail: readonly string[]): string {
  return JSON.stringify([kind, exitCode, signal, unvarying(String(reason)), stderrTail.map((line) => unvarying(line))]);
}

/** Returns the beginning of a line without the parts that differ each time. */
function unvarying(line: string): string {
  return VARYING_PARTS.reduce((text, part) => text.replace(part, "#"), line.slice(0, MAX_COMPARED_LENGTH));
}
