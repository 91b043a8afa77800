/** Writes a line to stderr. stdout is for the protocol only. */
export function log(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** Returns the beginning of a text of a device, without characters that could confuse a log. */
export function quote(text: string): string {
  return JSON.stringify(text.slice(0, 60)).replaceAll(/[^ -~]/g, "?");
}
