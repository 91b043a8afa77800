import { allMembers, nodeOf } from "./json-reference.ts";

/**
 * Returns a client's message as a server must read it, made in a slow way. It is on one line, with plain names if possible, and with line
 * and paragraph separators as escapes. Nothing else is changed.
 */
export function asServerReads(text: string): string {
  let line = text;
  for (const { name, nameText, nameStart } of allMembers(nodeOf(text)).toReversed()) {
    const needsEscapes = !/^[ !#-[\]-\uffff]*$/.test(name) || !name.isWellFormed();
    const spelled = needsEscapes ? nameText : `"${name}"`;
    line = line.slice(0, nameStart) + spelled + line.slice(nameStart + nameText.length);
  }
  return line
    .replaceAll("\n", " ")
    .replaceAll("\r", " ")
    .replaceAll("\u2028", String.raw`\u2028`)
    .replaceAll("\u2029", String.raw`\u2029`);
}
