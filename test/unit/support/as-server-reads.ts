import { allMembers, nodeOf } from "./json-reference.ts";

/**
 * A message of a client as a server shall read it, made in a slow way: on one line, names without escapes if they have such a spelling, and
 * the separators of lines and paragraphs as escapes. Nothing else is changed.
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
