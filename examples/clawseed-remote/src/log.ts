import { inspect } from "node:util";

const MAX_LINE_LENGTH = 500;
const PERIOD_MS = 1000;

/** Writes one line to stderr, without characters that could confuse a log. stdout is for the protocol only. */
export function log(text: string): void {
  const line = text.slice(0, MAX_LINE_LENGTH).replaceAll(/\s+/g, " ");
  process.stderr.write(`${line.replaceAll(/\p{C}/gu, "?")}\n`);
}

/** Returns a `log` that writes at most one line in a second: the latest, with the number of those since the line before. */
export function limitedLog(): typeof log {
  let latest = "";
  let count = 0;
  let timer: NodeJS.Timeout | undefined;
  const write = (): void => {
    timer = count === 0 ? undefined : setTimeout(write, PERIOD_MS).unref();
    if (count > 0) log(count === 1 ? latest : `${latest} (the last of ${count})`);
    count = 0;
  };
  return (text) => {
    latest = text;
    count += 1;
    if (timer === undefined) write();
  };
}

/** Returns the first line of anything that was thrown, which may be no Error. */
export function firstLine(error: unknown): string {
  return inspect(error, { depth: 0 }).split("\n", 1)[0] ?? "";
}
