import { cleanLine } from "./text.ts";

/** Writes a line to stderr, which the sidecar logs. */
export function log(text: string): void {
  process.stderr.write(`cetp-bridge: ${cleanLine(text, 500)}\n`);
}

/** Logs the first of several problems, since an app may have any number of them. */
export function logFirst(problems: readonly string[]): void {
  const [first, ...others] = problems;
  if (first !== undefined) log(others.length === 0 ? first : `${first} (and ${others.length} more)`);
}
