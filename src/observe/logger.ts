import { fstatSync } from "node:fs";
import { pino, stdTimeFunctions } from "pino";
import { escapeInvisible } from "../json/text.ts";
import type { Log, LogLevel } from "./log.ts";
import { maskedPlainLines, maskedPlainText, type Redact } from "./redact.ts";

/** Further lines are dropped and counted: nothing may wait for a log driver. */
const MAX_BUFFERED_BYTES = 16 * 1024 * 1024;
/** The longest time in which nothing of the last lines is read. */
const CLOSE_STALL_MS = 2500;
const MIN_CLOSE_MS = 1000;

export interface Logger {
  /** Each line has `level`, `time`, `pid` (of the sidecar) and `msg`, and some of LOG_FIELDS. */
  readonly log: Log;
  /** For a text that is not a log line, in order with the log. */
  show(text: string): void;
  /**
   * Writes the buffered lines. Ends when nothing is read for 2.5 s, and at `endMs` (of `performance.now()`), but not within a second. A further call
   * can only make the time shorter.
   *
   * @returns false if a write is stuck: even `process.exit` would wait for it.
   */
  close(endMs?: number): Promise<boolean>;
}

/**
 * One JSON object a line, or readable lines on a terminal.
 *
 * @param redact is applied to each finished line, so that it covers every field.
 * @param listeners called with each line as JSON, with secrets masked.
 */
export async function createLogger(
  level: LogLevel,
  stdout: { readonly isTTY?: boolean; readonly fd: number },
  redact: Redact,
  listeners: readonly ((line: string) => void)[] = [],
): Promise<Logger> {
  // Writes are asynchronous: a log driver that stops reading does not stop MCP messages.
  const destination = pino.destination({ fd: stdout.fd, sync: false, maxLength: MAX_BUFFERED_BYTES });
  let droppedLines = 0;
  let closing: ReturnType<typeof startClose> | undefined;
  destination.on("drop", () => {
    if (droppedLines++ === 0) destination.once("drain", reportDropped);
  });
  // The pipe or terminal is closed, or the disk is full. The error cannot be logged.
  let isUnwritable = false;
  destination.on("error", () => {
    if (!isUnwritable) destination.once("drain", () => (isUnwritable = false));
    isUnwritable = true;
  });
  const prettify = stdout.isTTY === true ? await createPrettifier(level) : undefined;
  const options = {
    level,
    timestamp: stdTimeFunctions.isoTime,
    base: { pid: process.pid },
    formatters: { level: (label: string) => ({ level: label }) },
    hooks: {
      streamWrite: (line: string) => {
        // Escapes characters that could control a reader's terminal, or hide a part of the log.
        const masked = `${escapeInvisible(redactLine(line, redact).trimEnd())}\n`;
        for (const onLine of listeners) onLine(masked);
        return prettify === undefined ? masked : prettify(plainFields(masked, redact));
      },
    },
  };
  const log = pino(options, destination);
  const reportDropped = (): void => {
    const count = droppedLines;
    droppedLines = 0;
    const present = log.level;
    log.level = level;
    log.warn({ count }, "log lines dropped: stdout was not read");
    log.level = present;
  };
  return {
    log,
    show: (text) => {
      if (closing === undefined) destination.write(text);
    },
    close: (endMs = 0) => {
      // A closed destination throws, and lines may still arrive during a forced exit. Only the count of dropped lines is logged.
      log.level = "silent";
      closing ??= startClose(destination, stdout.fd, isUnwritable, droppedLines > 0);
      closing.endWithin(Math.max(MIN_CLOSE_MS, endMs - performance.now()));
      return closing.closed;
    },
  };
}

async function createPrettifier(level: LogLevel): Promise<(fields: object) => string> {
  // The default export, because the bundle has no other.
  const { prettyFactory } = (await import("pino-pretty")).default;
  const isStderrShown = level === "info" || level === "debug";
  return prettyFactory({
    translateTime: "SYS:HH:MM:ss.l",
    singleLine: true,
    // Process ids help to search a log, not to watch it. The stderr lines are already shown above.
    ignore: `pid,childPid,generation,stream,reason,likelyCause${isStderrShown ? ",stderrTail" : ""}`,
    messageFormat: ({ stream, msg, reason, likelyCause }) => {
      if (stream === "stderr") return `mcp server: ${String(msg)}`;
      const cause = typeof likelyCause === "string" ? `; likely cause: ${likelyCause}` : "";
      return typeof reason === "string" ? `${String(msg)}: ${reason}${cause}` : String(msg);
    },
  });
}

function startClose(destination: ReturnType<typeof pino.destination>, fd: number, isUnwritable: boolean, isDrainAwaited: boolean) {
  const { promise: closed, resolve } = Promise.withResolvers<boolean>();
  const giveUp = (): void => {
    // The rest would be written when the process exits, in a loop until that succeeds.
    destination.destroy();
    resolve(true);
  };
  // A write to a file always ends, though its data may take long to reach a busy disk.
  const isFile = fstatSync(fd).isFile();
  // In a busy program, the timer may expire together with the end of a write, which must be handled first.
  const onLimit = (): unknown => setImmediate(() => setImmediate(resolve, isFile));
  if (isUnwritable) giveUp();
  else {
    destination.once("close", () => resolve(true));
    destination.once("error", giveUp);
    const stall = setTimeout(onLimit, CLOSE_STALL_MS);
    destination.on("write", () => stall.refresh());
    if (isDrainAwaited) destination.once("drain", () => destination.end());
    else destination.end();
  }
  return { closed, endWithin: (timeMs: number): void => void setTimeout(onLimit, timeMs) };
}

/** A secret may be part of the JSON syntax; if the masked line is not JSON, it is not shown. */
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

/** A terminal would execute a server's escape sequences. */
function plainFields(line: string, redact: Redact): object {
  return JSON.parse(line, (key, value: unknown) => {
    if (typeof value !== "string") return value;
    return key === "stack" ? maskedPlainLines(value, redact) : maskedPlainText(value, redact);
  }) as object;
}
