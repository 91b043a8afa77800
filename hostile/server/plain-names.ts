/**
 * Replaces escapes of ASCII characters. This server must parse names like servers in Python or Go, even on an engine whose JSON.parse
 * misreads names with escapes (nodejs/node#63785).
 */
export function plainNames(line: string): string {
  if (!line.includes("\\u00")) return line;
  return line.replaceAll(/\\(?:u00(?<hex>[2-7][0-9a-f])|[^])/gi, (escape: string, hex: string | undefined) => {
    const character = hex === undefined ? "" : String.fromCharCode(Number.parseInt(hex, 16));
    return character === "" || character === '"' || character === "\\" ? escape : character;
  });
}
