export const LOG_LEVELS = ["silent", "error", "warn", "info", "debug"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** The requests of clients that are logged. */
export const REQUEST_LOG_MODES = ["off", "errors", "all"] as const;
export type RequestLogMode = (typeof REQUEST_LOG_MODES)[number];

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

/** Returns a logger that adds fields to each line. */
export function withFields(log: Log, common: LogFields): Log {
  return {
    debug: (fields, message) => log.debug({ ...common, ...fields }, message),
    info: (fields, message) => log.info({ ...common, ...fields }, message),
    warn: (fields, message) => log.warn({ ...common, ...fields }, message),
    error: (fields, message) => log.error({ ...common, ...fields }, message),
  };
}

/** Returns a logger that logs every line at the level `debug`. */
export function atDebug(log: Log): Log {
  const debug: Log["debug"] = (fields, message) => log.debug(fields, message);
  return { debug, info: debug, warn: debug, error: debug };
}
