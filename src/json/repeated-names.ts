import { decodeString } from "./strings.ts";
import { Code } from "./tokens.ts";
import { nextToken, skipString } from "./walk.ts";

/**
 * Returns the first name that occurs twice in one object, at any depth of the value that starts at `start`. Most parsers take the last
 * occurrence, others the first (RFC 8259 §4). The text must be valid, without white space before the value.
 */
export function findRepeatedName(text: string, start: number): string | undefined {
  /** The names of the objects around the innermost one; undefined for an array. */
  const outer: (Set<string> | undefined)[] = [];
  /** The names so far in the innermost object; undefined in an array. */
  let names: Set<string> | undefined;
  let isNameNext = false;
  let index = start;
  while (index < text.length) {
    const code = text.charCodeAt(index);
    let end = index + 1;
    if (code === Code.quote) {
      end = skipString(text, index);
      if (isNameNext && names !== undefined) {
        const name = decodeString(text, index, end);
        if (names.has(name)) return name;
        names.add(name);
      }
      isNameNext = false;
    } else if (code === Code.comma) isNameNext = names !== undefined;
    else if (code === Code.openBrace || code === Code.openBracket) {
      outer.push(names);
      isNameNext = code === Code.openBrace;
      names = isNameNext ? new Set() : undefined;
    } else if (code === Code.closeBrace || code === Code.closeBracket) names = outer.pop();
    // A bare number or word, a text, or the end of the value.
    if (outer.length === 0) return undefined;
    index = nextToken(text, end);
  }
  return undefined;
}
