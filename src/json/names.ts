import { decodeString } from "./strings.ts";
import { Code } from "./tokens.ts";
import { nextToken, skipString } from "./walk.ts";

/**
 * Some parsers, such as Go's `encoding/json`, take `"Name"` for `"name"`, and the later of the two counts. The sidecar must not decide by
 * one member while the server acts on the other.
 */

/** Non-ASCII letters that some parsers fold to an ASCII letter: `ſ` and the Kelvin sign in Go, `İ` and `ı` in Java. */
const FOLDED: ReadonlyMap<number, number> = new Map([
  [0x017f, 115],
  [0x212a, 107],
  [0x0130, 105],
  [0x0131, 105],
]);

/** Folds the case of a name: two names have the same result if and only if they differ at most in case. */
export function foldCase(name: string): string {
  return name.replaceAll(/[A-Z\u017f\u212a\u0130\u0131]/g, (letter) => String.fromCharCode(fold(letter.charCodeAt(0))));
}

/** True if `key` differs from `name`, which is ASCII, and only in case. */
export function isOtherCase(key: string, name: string): boolean {
  // Each of the folded letters is one UTF-16 unit, as ASCII letters are.
  return key.length === name.length && isSpelledOtherwise(key, 0, name);
}

/** True if the text at `start` differs from `name`, which is ASCII, and only in case. */
export function isSpelledOtherwise(text: string, start: number, name: string): boolean {
  let isSame = true;
  for (let index = 0; index < name.length; index++) {
    const code = text.charCodeAt(start + index);
    const expected = name.charCodeAt(index);
    if (code === expected) continue;
    if (fold(code) !== fold(expected)) return false;
    isSame = false;
  }
  return !isSame;
}

/** True if some parsers take `key` for `name`, because they ignore case or end strings at NUL. */
export function isMistakenFor(key: string, name: string): boolean {
  return isOtherCase(key, name) || (key.length > name.length && key.startsWith(name) && key.charCodeAt(name.length) === 0);
}

function fold(code: number): number {
  if (code < 128) return code >= 65 && code <= 90 ? code + 32 : code;
  return FOLDED.get(code) ?? code;
}

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
