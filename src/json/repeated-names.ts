import { decodeString } from "./strings.ts";
import { Code } from "./tokens.ts";
import { skipString } from "./walk.ts";

/**
 * The first name that occurs twice in one object, anywhere in the value whose text starts at `start`: most readers take the last of
 * them, others the first (RFC 8259 §4). Takes text that was found valid, without white space before the value.
 */
export function findRepeatedName(text: string, start: number): string | undefined {
  /** The names so far in each object that is open; undefined for an array. */
  const open: (Set<string> | undefined)[] = [];
  let isNameNext = false;
  for (let index = start; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === Code.quote) {
      const end = skipString(text, index);
      const names = open.at(-1);
      if (isNameNext && names !== undefined) {
        const name = decodeString(text, index, end);
        if (names.has(name)) return name;
        names.add(name);
      }
      isNameNext = false;
      index = end - 1;
    } else if (code === Code.openBrace || code === Code.openBracket) {
      isNameNext = code === Code.openBrace;
      open.push(isNameNext ? new Set() : undefined);
    } else if (code === Code.comma) isNameNext = open.at(-1) !== undefined;
    else if (code === Code.closeBrace || code === Code.closeBracket) open.pop();
    // A bare number or word, a text, or the end of the value.
    if (open.length === 0) return undefined;
  }
  return undefined;
}
