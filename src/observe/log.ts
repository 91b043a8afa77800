import { describeError } from "../mcp/errors.ts";

export const LOG_LEVELS = ["silent", "error", "warn", "info", "debug"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export const REQUEST_LOG_MODES = ["off", "errors", "all"] as const;

/** docs/operations/logs.md describes them. */
export const LOG_FIELDS = [
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
  "stream",
  "isPartial",
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
  "session",
  "principal",
  "revision",
  "httpStatus",
  "ending",
  "queueMs",
  "serverMs",
  "requestBytes",
  "responseBytes",
  "address",
  "path",
  "keys",
  "err",
] as const;

export type LogFields = Readonly<Partial<Record<(typeof LOG_FIELDS)[number], unknown>>>;

/** The fields come first, then a constant lower-case message. */
export type Log = Readonly<Record<Exclude<LogLevel, "silent">, (fields: LogFields, message: string) => void>>;

export function logOf(write: (level: keyof Log, fields: LogFields, message: string) => void): Log {
  const at =
    (level: keyof Log): Log[keyof Log] =>
    (fields, message) =>
      write(level, fields, message);
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

export function withFields(log: Log, common: LogFields): Log {
  return logOf((level, fields, message) => log[level]({ ...common, ...fields }, message));
}

export function atDebug(log: Log): Log {
  return logOf((_level, fields, message) => log.debug(fields, message));
}

const PERIOD_MS = 10_000;
const EQUAL_LINES_PER_PERIOD = 10;
/** Of the lines that end requests: a crash of the server may end as many at once. */
const REQUEST_LINES_PER_PERIOD = 100;

/** @returns a function to be called once per line. */
export function logLimiter(nowMs: () => number, linesPerPeriod = EQUAL_LINES_PER_PERIOD): () => boolean {
  let periodStartMs = -Infinity;
  let lines = 0;
  return () => {
    if (nowMs() - periodStartMs >= PERIOD_MS) {
      periodStartMs = nowMs();
      lines = 0;
    }
    return ++lines <= linesPerPeriod;
  };
}

/** For lines that others can cause at any rate: of each message, the first ones of each period. */
export function limitedLog(log: Log, nowMs: () => number): Log {
  const limiters = new Map<string, () => boolean>();
  return logOf((level, fields, message) => {
    let mayLog = limiters.get(message);
    if (mayLog === undefined) limiters.set(message, (mayLog = logLimiter(nowMs)));
    if (mayLog()) log[level](fields, message);
  });
}

/** The next line after suppressed ones is preceded by their count. */
export function limitedRequestLog(log: Log, nowMs: () => number): Log {
  const mayLog = logLimiter(nowMs, REQUEST_LINES_PER_PERIOD);
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

/** A defect in the handling of an event from outside fails only the reply of the event, or at worst its lane. */
export class Defects {
  readonly #log: Log;
  readonly #counters: { defects: number };

  constructor(log: Log, counters: { defects: number }) {
    this.#log = log;
    this.#counters = counters;
  }

  /** Never throws. @param event its source, for the log. @param recover fails the reply or lane of the event. */
  guard(event: string, handle: () => void, recover?: () => void): void {
    try {
      handle();
    } catch (error) {
      this.recover(event, error, recover);
    }
  }

  /** For an error that is caught: a closure per event would cost too much on hot paths. Never throws. */
  recover(event: string, error: unknown, recover?: () => void): void {
    this.note(event, error);
    if (recover !== undefined) this.guard(event, recover);
  }

  note(event: string, error: unknown): void {
    this.#counters.defects++;
    this.#log.error({ kind: event, err: error, reason: describeError(error) }, "defect of the sidecar");
  }
}
