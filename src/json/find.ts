import { isOtherCase } from "./folded-names.ts";
import { decodeString, type Span } from "./strings.ts";
import { Code, skipWhitespace } from "./tokens.ts";
import { skipValue, STOP, walkElements, walkMembers } from "./walk.ts";

/**
 * Finds members in text that was found valid, so that nothing is checked twice. A name is decoded by itself: the engine's parser misreads
 * escaped names of an object (see `decodeString`).
 */
export interface Members {
  /** In the order of the names asked for; the last occurrence if a name is repeated. */
  readonly spans: readonly (Span | undefined)[];
  /** The first of the names that occurs twice. Two parsers may disagree on which one counts. */
  readonly duplicate: string | undefined;
  /** The first member, as it is called there, that some readers would take for one of the names: see `isOtherCase`. */
  readonly otherCase: string | undefined;
}

/** The value spans of the named members of the object whose text starts at `start` (white space before it is allowed). */
export function findMembers(text: string, start: number, names: readonly string[]): Members {
  const spans: (Span | undefined)[] = names.map(() => undefined);
  let duplicate: string | undefined;
  let otherCase: string | undefined;
  walkMembers(text, start, (keyStart, keyEnd, valueStart) => {
    const position = matchName(text, keyStart, keyEnd, names);
    const valueEnd = skipValue(text, valueStart);
    if (position !== -1) {
      if (spans[position] !== undefined) duplicate ??= names[position];
      spans[position] = { start: valueStart, end: valueEnd };
    } else otherCase ??= findOtherCase(text, keyStart, keyEnd, names);
    return valueEnd;
  });
  return { spans, duplicate, otherCase };
}

/** The span of a member below the object that starts at `start`, one name a level; undefined if a level is absent or not an object. */
export function findPath(text: string, start: number, path: readonly string[]): Span | undefined {
  let span: Span | undefined = { start, end: text.length };
  for (const name of path) {
    if (text.charCodeAt(skipWhitespace(text, span.start)) !== Code.openBrace) return undefined;
    span = findMembers(text, span.start, [name]).spans[0];
    if (span === undefined) return undefined;
  }
  return span;
}

/** The spans of the elements of the array whose text starts at `start` (white space before it is allowed). */
export function findElements(text: string, start = 0, maxCount = Number.POSITIVE_INFINITY): Span[] {
  const spans: Span[] = [];
  walkElements(text, start, (elementStart) => {
    if (spans.length >= maxCount) return STOP;
    const end = skipValue(text, elementStart);
    spans.push({ start: elementStart, end });
    return end;
  });
  return spans;
}

function matchName(text: string, keyStart: number, keyEnd: number, names: readonly string[]): number {
  const length = keyEnd - keyStart - 2;
  for (let position = 0; position < names.length; position++) {
    const name = names[position] ?? "";
    if (name.length === length && text.startsWith(name, keyStart + 1)) return position;
  }
  // A name may be spelled with escapes ("\u0069d").
  return text.slice(keyStart, keyEnd).includes("\\") ? names.indexOf(decodeString(text, keyStart, keyEnd)) : -1;
}

function findOtherCase(text: string, keyStart: number, keyEnd: number, names: readonly string[]): string | undefined {
  const length = keyEnd - keyStart - 2;
  let key: string | undefined;
  for (const name of names) {
    // Every message has keys that are none of the names: mostly their length tells. Escapes only make a key longer.
    if (length < name.length) continue;
    key ??= decodeString(text, keyStart, keyEnd);
    if (isOtherCase(key, name)) return key;
  }
  return undefined;
}
