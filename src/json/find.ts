import { isOtherCase } from "./folded-names.ts";
import { decodeString, type Span } from "./strings.ts";
import { Code, isWhitespace, skipWhitespace } from "./tokens.ts";

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
  let index = skipWhitespace(text, skipWhitespace(text, start) + 1);
  while (text.charCodeAt(index) === Code.quote) {
    const keyEnd = skipString(text, index);
    const position = matchName(text, index, keyEnd, names);
    // Past the key: white space, the colon, white space.
    const valueStart = skipWhitespace(text, skipWhitespace(text, keyEnd) + 1);
    const valueEnd = skipValue(text, valueStart);
    if (position !== -1) {
      if (spans[position] !== undefined) duplicate ??= names[position];
      spans[position] = { start: valueStart, end: valueEnd };
    } else otherCase ??= findOtherCase(text, index, keyEnd, names);
    index = skipWhitespace(text, valueEnd);
    if (text.charCodeAt(index) !== Code.comma) break;
    index = skipWhitespace(text, index + 1);
  }
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
  let index = skipWhitespace(text, skipWhitespace(text, start) + 1);
  while (index < text.length && spans.length < maxCount && text.charCodeAt(index) !== Code.closeBracket) {
    const end = skipValue(text, index);
    spans.push({ start: index, end });
    index = skipWhitespace(text, end);
    if (text.charCodeAt(index) === Code.comma) index = skipWhitespace(text, index + 1);
  }
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

/** For so many characters a loop is faster than `indexOf`, which makes a megabyte of text cost microseconds, not milliseconds. */
const SHORT_RUN = 24;

/** From an opening quote to just past the closing one, or to the end of a text that has none. */
export function skipString(text: string, start: number): number {
  let index = start + 1;
  for (;;) {
    let runEnd = index + SHORT_RUN;
    while (index < runEnd) {
      const code = text.charCodeAt(index);
      if (code === Code.quote) return index + 1;
      if (code !== Code.backslash) index++;
      else {
        index += 2;
        // Where one is, others are not far.
        runEnd = index + SHORT_RUN;
      }
    }
    const quote = text.indexOf('"', index);
    if (quote === -1) return text.length;
    let first = quote;
    while (first > index && text.charCodeAt(first - 1) === Code.backslash) first--;
    index = quote + 1;
    if ((quote - first) % 2 === 0) return index;
  }
}

export function skipValue(text: string, start: number): number {
  const first = text.charCodeAt(start);
  if (first === Code.quote) return skipString(text, start);
  let index = start;
  let depth = 0;
  // The end of the text stops a bare number or word; inside brackets, valid JSON closes them first.
  while (index < text.length) {
    const code = text.charCodeAt(index);
    if (code === Code.quote) {
      index = skipString(text, index);
      continue;
    }
    if (code === Code.openBrace || code === Code.openBracket) depth++;
    else if (code === Code.closeBrace || code === Code.closeBracket) {
      if (depth === 0) return index;
      depth--;
      if (depth === 0) return index + 1;
    } else if (depth === 0 && (code === Code.comma || isWhitespace(code))) return index;
    index++;
  }
  return index;
}
