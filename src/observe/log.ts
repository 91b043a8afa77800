import { describeError } from "../mcp/errors.ts";

export const LOG_LEVELS = ["silent", "error", "warn", "info", "debug"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** The requests of clients that are logged. */
export const REQUEST_LOG_MODES = ["off", "errors", "all"] as const;

/** The fields of a log line besides its message, grouped by subject. docs/operations/logs.md describes them. */
export const LOG_FIELDS = [
  // The server process.
  "lane",
  "childPid",
  "generation",
  "state",
  "kind",
  "exitCode",
  "signal",
  "reason",
  "stderrTail",
  "likelyCause",
  "restarts",
  "pauseMs",
  "timeoutMs",
  // Its stderr.
  "stream",
  "isPartial",
  // A message.
  "method",
  "requestId",
  "tool",
  "mode",
  "setting",
  "code",
  "line",
  "bytes",
  "count",
  "since",
  // A request of a client.
  "session",
  "principal",
  "revision",
  "httpStatus",
  "ending",
  "queueMs",
  "serverMs",
  "requestBytes",
  "responseBytes",
  // The sidecar.
  "address",
  "path",
  "keys",
  "err",
] as const;

export type LogFields = Readonly<Partial<Record<(typeof LOG_FIELDS)[number], unknown>>>;

/** The logger for the rest of the program. Its methods take the fields first, then a constant lower-case message. */
export interface Log {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
}

/** Returns a logger that does this with each line. */
export function logOf(write: (level: keyof Log, fields: LogFields, message: string) => void): Log {
  const at =
    (level: keyof Log): Log[keyof Log] =>
    (fields, message) =>
      write(level, fields, message);
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

/** Returns a logger that adds fields to each line. */
export function withFields(log: Log, common: LogFields): Log {
  return logOf((level, fields, message) => log[level]({ ...common, ...fields }, message));
}

/** Returns a logger that logs every line at the level `debug`. */
export function atDebug(log: Log): Log {
  return logOf((_level, fields, message) => log.debug(fields, message));
}

const LINES_PER_PERIOD = 10;
const PERIOD_MS = 10_000;

/**
 * Limits log lines that a client or server can cause at any rate: only the first ones of each period are allowed.
 *
 * @returns a function to be called once per line. It returns true if the line may be logged.
 */
export function logLimiter(nowMs: () => number, linesPerPeriod = LINES_PER_PERIOD): () => boolean {
  let periodStartMs = Number.NEGATIVE_INFINITY;
  let lines = 0;
  return () => {
    if (nowMs() - periodStartMs >= PERIOD_MS) {
      periodStartMs = nowMs();
      lines = 0;
    }
    return ++lines <= linesPerPeriod;
  };
}

/** In a period, of the lines that end requests: a crash of the server may end as many at once. */
const LIMITED_LINES_PER_PERIOD = 100;

/** Returns a logger of lines that a client can cause at any rate. The next line after suppressed ones is preceded by their count. */
export function limitedLog(log: Log, nowMs: () => number): Log {
  const mayLog = logLimiter(nowMs, LIMITED_LINES_PER_PERIOD);
  let suppressed = 0;
  return logOf((level, fields, message) => {
    if (!mayLog()) {
      suppressed++;
      return;
    }
    if (suppressed > 0) log.warn({ count: suppressed }, "log lines suppressed: too many requests of clients caused them");
    suppressed = 0;
    log[level](fields, message);
  });
}

/**
 * Guards the code that handles events from outside. A defect of the sidecar then fails only the reply of the event, or at worst its lane.
 */
export class Defects {
  readonly #log: Log;
  readonly #counters: { defects: number };

  constructor(log: Log, counters: { defects: number }) {
    this.#log = log;
    this.#counters = counters;
  }

  /**
   * Handles one event. Never throws.
   *
   * @param event the name of the event source in the log.
   * @param recover fails the reply or lane of the event.
   */
  guard(event: string, handle: () => void, recover?: () => void): void {
    try {
      handle();
    } catch (error) {
      this.recover(event, error, recover);
    }
  }

  /** Handles an error that the caller has caught. Hot paths use this, because a closure per event would cost too much. Never throws. */
  recover(event: string, error: unknown, recover?: () => void): void {
    this.note(event, error);
    if (recover !== undefined) this.guard(event, recover);
  }

  note(event: string, error: unknown): void {
    this.#counters.defects++;
    this.#log.error({ kind: event, err: error, reason: describeError(error) }, "defect of the sidecar");
  }
}
