import { prettyFactory } from "pino-pretty";
import type { LogLevel } from "./log.ts";

/** Creates the formatter of log lines for a terminal. */
export function createPrettifier(level: LogLevel): (line: string) => string {
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
