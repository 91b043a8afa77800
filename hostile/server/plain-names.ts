/**
 * Spells out escapes of ASCII letters and the like: this server has to read what it is sent as a server in Python or Go does, also with an
 * engine whose JSON.parse misreads names with escapes (nodejs/node#63785).
 */
export function plainNames(line: string): string {
  if (!line.includes("\\u00")) return line;
  return line.replaceAll(/\\(?:u00(?<hex>[2-7][0-9a-f])|[^])/gi, (escape: string, hex: string | undefined) => {
    const character = hex === undefined ? "" : String.fromCharCode(Number.parseInt(hex, 16));
    return character === "" || character === '"' || character === "\\" ? escape : character;
  });
}
