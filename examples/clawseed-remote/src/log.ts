import { inspect } from "node:util";

const MAX_LINE_LENGTH = 500;

/** Writes one line to stderr, without characters that could confuse a log. stdout is for the protocol only. */
export function log(text: string): void {
  const line = text.slice(0, MAX_LINE_LENGTH).replaceAll(/\s+/g, " ");
  process.stderr.write(`${line.replaceAll(/\p{C}/gu, "?")}\n`);
}

/** Returns the first line of anything that was thrown, which may be no Error. */
export function firstLine(error: unknown): string {
  return inspect(error, { depth: 0 }).split("\n", 1)[0] ?? "";
}
