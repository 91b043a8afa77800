import { skipString } from "./splice.ts";

const QUOTE = 34;
const COMMA = 44;
const OPEN_BRACKET = 91;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;

/**
 * The first name that occurs twice in one object, anywhere in the value whose text starts at `start`: `JSON.parse` takes the last of
 * them, and other readers the first (RFC 8259 §4). Takes text that `JSON.parse` has accepted, without white space before the value.
 */
export function findRepeatedName(text: string, start: number): string | undefined {
  /** The names so far in each object that is open; undefined for an array. */
  const open: (Set<string> | undefined)[] = [];
  let isNameNext = false;
  for (let index = start; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === QUOTE) {
      const end = skipString(text, index);
      const names = open.at(-1);
      if (isNameNext && names !== undefined) {
        const raw = text.slice(index, end);
        // A name may be spelled with escapes.
        const name = raw.includes("\\") ? (JSON.parse(raw) as string) : raw.slice(1, -1);
        if (names.has(name)) return name;
        names.add(name);
      }
      isNameNext = false;
      index = end - 1;
    } else if (code === OPEN_BRACE || code === OPEN_BRACKET) {
      isNameNext = code === OPEN_BRACE;
      open.push(isNameNext ? new Set() : undefined);
    } else if (code === COMMA) isNameNext = open.at(-1) !== undefined;
    else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) open.pop();
    // A bare number or word, a text, or the end of the value.
    if (open.length === 0) return undefined;
  }
  return undefined;
}
