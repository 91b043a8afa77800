import { pino, stdTimeFunctions } from "pino";
import type { Log, LogLevel } from "./log.ts";
import type { Redact } from "./redact.ts";

/** What is kept while the container's log driver does not read; beyond it, lines are dropped and counted, never waited for. */
const MAX_BUFFERED_BYTES = 16 * 1024 * 1024;
/** How long the last lines may take to be read. */
const CLOSE_TIMEOUT_MS = 500;

/**
 * The fields of a log line, besides `level`, `time`, `pid` (of the sidecar) and `msg`:
 * `lane` (`private-N` for the server of a single client, none for the shared one), `childPid`, `generation` (which life of the MCP server), `stream` and `isPartial` (its stderr), `stderrTail`, `state`, `exitCode`,
 * `signal`, `kind` (of an exit), `reason`, `pauseMs`, `restarts`, `method`, `requestId` (as sent to the MCP server), `code` (error code), `count`, `line`,
 * `bytes`, `address`, `path`, `tool` (its name), `mode` (of the rule that it met), `err`.
 */
export interface Logger extends Log {
  /**
   * Writes out what is buffered, right before the process exits.
   *
   * @returns false when nobody reads stdout: a write is stuck then, and even `process.exit` would wait for it.
   */
  close(): Promise<boolean>;
}

/** Pino to stdout: one JSON object a line, or readable lines on a terminal. @param redact is given every line, whatever it is made of. */
export async function createLogger(level: LogLevel, stdout: { readonly isTTY?: boolean }, redact: Redact): Promise<Logger> {
  // Asynchronous on purpose: a log driver that stops reading must not stop the messages.
  const destination = pino.destination({ fd: 1, sync: false, maxLength: MAX_BUFFERED_BYTES });
  let droppedLines = 0;
  let closed: Promise<boolean> | undefined;
  destination.on("drop", () => droppedLines++);
  // A closed pipe has nobody left to tell; pino turns its destination off then, `end` included.
  let isReaderGone = false;
  destination.on("error", () => {
    isReaderGone = true;
  });
  const options = {
    level,
    timestamp: stdTimeFunctions.isoTime,
    base: { pid: process.pid },
    formatters: { level: (label: string) => ({ level: label }) },
    hooks: { streamWrite: (line: string) => redactLine(line, redact) },
  };
  const logger = stdout.isTTY === true ? pino(options, await prettyStream()) : pino(options, destination);
  destination.on("drain", () => {
    if (droppedLines === 0) return;
    const count = droppedLines;
    droppedLines = 0;
    logger.warn({ count }, "log lines dropped: stdout was not read");
  });
  // A closed destination throws, and what is ended by force may still have something to say.
  const logAt =
    (lineLevel: keyof Log): Log[keyof Log] =>
    (fields, message) => {
      if (closed === undefined) logger[lineLevel](fields, message);
    };
  return {
    debug: logAt("debug"),
    info: logAt("info"),
    warn: logAt("warn"),
    error: logAt("error"),
    close: () =>
      (closed ??= new Promise((resolve) => {
        if (isReaderGone) return resolve(true);
        destination.once("close", () => resolve(true));
        destination.once("error", () => resolve(true));
        // In a busy program the timer may come due together with the write: that one is to be heard first.
        setTimeout(() => setImmediate(() => setImmediate(resolve, false)), CLOSE_TIMEOUT_MS);
        destination.end();
      })),
  };
}

/** A secret may look like a part of the line itself; a line that is no JSON without it is not shown. */
function redactLine(line: string, redact: Redact): string {
  const redacted = redact(line);
  if (redacted === line) return line;
  try {
    JSON.parse(redacted);
    return redacted;
  } catch {
    const { level, time, pid } = JSON.parse(line) as Record<string, unknown>;
    return `${JSON.stringify({ level, time, pid, msg: "log line not shown: a secret is part of it" })}\n`;
  }
}

/** Loaded only on a terminal: a container never pays for it. */
async function prettyStream(): Promise<NodeJS.WritableStream> {
  const { default: pretty } = await import("pino-pretty");
  return pretty({ sync: true, ignore: "pid", translateTime: "SYS:HH:MM:ss.l" });
}
