/** Returns text of an app as one safe line: without control characters, invisible ones, and those that change the direction. */
export function cleanLine(text: string, maxLength: number): string {
  const line = text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\s]+/gu, " ")
    .trim();
  return line.length > maxLength ? `${line.slice(0, maxLength - 1).toWellFormed()}…` : line;
}

/** Writes a line to stderr, which the sidecar logs. */
export function log(text: string): void {
  process.stderr.write(`cetp-bridge: ${cleanLine(text, 500)}\n`);
}
