import { pino, stdTimeFunctions } from "pino";
import { plainText } from "../json/text.ts";
import type { Log, LogLevel } from "./log.ts";
import type { Redact } from "./redact.ts";

/** What is kept while the container's log driver does not read; beyond it, lines are dropped and counted, never waited for. */
const MAX_BUFFERED_BYTES = 16 * 1024 * 1024;
/** How long the last lines may take to be read. */
const CLOSE_TIMEOUT_MS = 500;

/** Each line has `level`, `time`, `pid` (of the sidecar) and `msg`, and some of LOG_FIELDS. */
export interface Logger extends Log {
  /** Writes a text that is no log line, in its turn: for the terminal that the log goes to. */
  show(text: string): void;
  /**
   * Writes out what is buffered, right before the process exits.
   *
   * @returns false when nobody reads stdout: a write is stuck then, and even `process.exit` would wait for it.
   */
  close(): Promise<boolean>;
}

/**
 * Pino to stdout: one JSON object a line, or readable lines on a terminal.
 *
 * @param redact is applied to the text of each finished line, so that no field gets past it.
 */
export async function createLogger(level: LogLevel, stdout: { readonly isTTY?: boolean }, redact: Redact): Promise<Logger> {
  // Asynchronous on purpose: a log driver that stops reading must not stop the messages.
  const destination = pino.destination({ fd: 1, sync: false, maxLength: MAX_BUFFERED_BYTES });
  let droppedLines = 0;
  let closed: Promise<boolean> | undefined;
  destination.on("drop", () => droppedLines++);
  // A closed pipe or terminal has nobody left to tell, a full disk no room.
  let isUnwritable = false;
  destination.on("error", () => {
    isUnwritable = true;
  });
  const prettify = stdout.isTTY === true ? await prettifier(level) : undefined;
  const options = {
    level,
    timestamp: stdTimeFunctions.isoTime,
    base: { pid: process.pid },
    formatters: { level: (label: string) => ({ level: label }) },
    hooks: { streamWrite: (line: string) => (prettify === undefined ? redactLine(line, redact) : prettify(plainLine(line, redact))) },
  };
  const logger = pino(options, destination);
  destination.on("drain", () => {
    isUnwritable = false;
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
    show: (text) => {
      if (closed === undefined) destination.write(text);
    },
    close: () =>
      (closed ??= new Promise((resolve) => {
        const giveUp = (): void => {
          // What is left would be written when the process exits, again and again until that succeeds.
          destination.destroy();
          resolve(true);
        };
        if (isUnwritable) return giveUp();
        destination.once("close", () => resolve(true));
        destination.once("error", giveUp);
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

/** For a terminal, which would obey what a server says; masked before and after, as in `maskedPlainText`. */
function plainLine(line: string, redact: Redact): string {
  const fields = JSON.parse(redactLine(line, redact), (key, value: unknown) => {
    if (typeof value !== "string") return value;
    return key === "stack" ? value.split("\n").map(plainText).join("\n") : plainText(value);
  }) as object;
  return redactLine(`${JSON.stringify(fields)}\n`, redact);
}

/** Loaded only on a terminal: a container never pays for it. */
async function prettifier(level: LogLevel): Promise<(line: string) => string> {
  const { prettyFactory } = await import("pino-pretty");
  const isStderrShown = level === "info" || level === "debug";
  return prettyFactory({
    translateTime: "SYS:HH:MM:ss.l",
    singleLine: true,
    // Which process it was matters to who searches a log, not to who watches it; and what the server said stands right above.
    ignore: `pid,childPid,generation,stream${isStderrShown ? ",stderrTail" : ""}`,
    messageFormat: ({ stream, msg }) => (stream === "stderr" ? `mcp server: ${String(msg)}` : String(msg)),
  });
}
