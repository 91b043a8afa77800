export type JsonObject = Readonly<Record<string, unknown>>;

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const NAME_LENGTH = 100;

/**
 * Controls, direction marks, zero-width and tag characters, lone surrogates. Ordinary texts have the selectors of emoji and text
 * presentation.
 */
const INVISIBLE = /[[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]--[\uFE0E\uFE0F]]/gv;

/**
 * Escape sequences with their parameters (ECMA-48). None can begin inside another one, so the time is linear. `stripVTControlCharacters`
 * takes quadratic time, and a server may write megabytes.
 */
const ESCAPE_SEQUENCES =
  // oxlint-disable-next-line no-control-regex -- they are what it matches
  /(?:\u001B\[|\u009B)[0-?]*[ -/]*[@-~]|(?:\u001B[\]PX^_]|[\u0090\u0098\u009D-\u009F])[^\u0007\u001B\u0080-\u009F]*(?:\u0007|\u001B\\|\u009C)|\u001B[ -/]*[0-~]/g;

// oxlint-disable-next-line no-control-regex -- they are what it matches
const WHITE_SPACE = /[\s\0-\u001A\u001C-\u001F\u007F\uFEFF]*/y;
const ESCAPE_SEQUENCE = new RegExp(ESCAPE_SEQUENCES.source, "y");

/** Returns the position of the next character that a terminal would show. */
export function skipInvisible(text: string, start = 0): number {
  let index = start;
  for (;;) {
    WHITE_SPACE.lastIndex = index;
    if (WHITE_SPACE.test(text)) index = WHITE_SPACE.lastIndex;
    ESCAPE_SEQUENCE.lastIndex = index;
    if (!ESCAPE_SEQUENCE.test(text)) return index;
    index = ESCAPE_SEQUENCE.lastIndex;
  }
}

/** Shortens a text for people, to its first `maxLength` UTF-16 units and "…". */
export function shorten(text: string, maxLength = NAME_LENGTH): string {
  return text.length <= maxLength ? text : `${beginning(text, maxLength)}…`;
}

/** Does not end with half of a surrogate pair. */
export function beginning(text: string, maxLength: number): string {
  return text.slice(0, isInsidePair(text, maxLength) ? maxLength - 1 : maxLength);
}

export function isInsidePair(text: string, index: number): boolean {
  return (text.codePointAt(index - 1) ?? 0) > 0xffff;
}

/** Makes a text safe for a terminal, on one line. Escape sequences are removed; invisible characters become spaces. */
export function plainText(text: string): string {
  return text.replace(ESCAPE_SEQUENCES, "").replace(INVISIBLE, " ");
}

export function escapeInvisible(text: string): string {
  // A peer may send millions of them, so no array is built for each.
  return text.replace(INVISIBLE, (character) =>
    character.length === 1 ? escapeUnit(character, 0) : escapeUnit(character, 0) + escapeUnit(character, 1),
  );
}

function escapeUnit(text: string, index: number): string {
  return String.raw`\u${text.charCodeAt(index).toString(16).padStart(4, "0")}`;
}

/** A lone surrogate has three bytes, because it is sent as U+FFFD. */
export function utf8Length(text: string): number {
  let bytes = text.length;
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    if (unit > 0x7f) bytes++;
    if (unit > 0x7ff && !isInsidePair(text, index) && !isInsidePair(text, index + 1)) bytes++;
  }
  return bytes;
}

export const Code = {
  tab: 9,
  lineFeed: 10,
  carriageReturn: 13,
  space: 32,
  quote: 34,
  comma: 44,
  colon: 58,
  openBracket: 91,
  backslash: 92,
  closeBracket: 93,
  openBrace: 123,
  closeBrace: 125,
} as const;

export function skipWhitespace(text: string, start: number, stop = text.length): number {
  let index = start;
  for (; index < stop; index++) {
    const code = text.charCodeAt(index);
    if (code !== Code.space && code !== Code.lineFeed && code !== Code.carriageReturn && code !== Code.tab) break;
  }
  return index;
}

/** In UTF-16 units. A shorter text may stay in memory. */
const LONG_TEXT = 16 * 1024;

/** Copies a slice of a long text, which would keep the whole text in memory. */
export function detached(part: string, text: string): string {
  return text.length < LONG_TEXT ? part : copied(part);
}

export function copied(text: string): string {
  return JSON.parse(JSON.stringify(text)) as string;
}

export interface Span {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
}

// V8 misreads an escaped name of an object after certain others (nodejs/node#63785): in Node 24 and 26, but not in 22. No version corrects
// it yet. A single string is never misread, so strings are decoded one by one. `readValue` builds values with such names itself. Servers,
// whose engine may be V8, get names without escapes (`withPlainNames`). The last two can go once `engines` has only corrected versions.

/** Decodes a JSON string. @param start position of the opening quote, in valid text. */
export function decodeString(text: string, start: number, end: number): string {
  const inner = text.slice(start + 1, end - 1);
  return inner.includes("\\") ? (JSON.parse(text.slice(start, end)) as string) : inner;
}

/**
 * Visits the members of an object, or the elements of an array, in valid text. Other values have none. The walk ends if `visit` returns
 * false. @param start after optional white space. @param visit the name includes its quotes; that of an element is empty.
 */
export function walk(
  text: string,
  start: number,
  visit: (start: number, end: number, nameStart: number, nameEnd: number) => false | void,
): void {
  let index = skipWhitespace(text, start);
  const isObject = text.charCodeAt(index) === Code.openBrace;
  if (!isObject && text.charCodeAt(index) !== Code.openBracket) return;
  index = skipWhitespace(text, index + 1);
  for (;;) {
    const code = text.charCodeAt(index);
    if (code === Code.closeBrace || code === Code.closeBracket || index >= text.length) return;
    const nameStart = index;
    const nameEnd = isObject ? skipString(text, index) : index;
    if (isObject) index = skipWhitespace(text, skipWhitespace(text, nameEnd) + 1);
    const end = skipValue(text, index);
    if (visit(index, end, nameStart, nameEnd) === false) return;
    index = skipWhitespace(text, end);
    if (text.charCodeAt(index) === Code.comma) index = skipWhitespace(text, index + 1);
  }
}

/** For longer runs, `indexOf` or a regular expression is faster than a loop. */
export const SHORT_RUN = 24;

/** Returns the position after the closing quote, or the end of the text. */
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
        // Backslashes come in clusters.
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
  // A number or word may end with the text. Brackets of valid JSON are closed before it.
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
    } else if (depth === 0 && (code === Code.comma || code <= Code.space)) return index;
    index++;
  }
  return index;
}

// Some parsers, such as Go's `encoding/json`, take `"Name"` for `"name"`. The sidecar must not decide by one while the server acts on the
// other.

/** Capital letters, and the others that some parsers fold to an ASCII letter: `ſ` and the Kelvin sign in Go, `İ` and `ı` in Java. */
const FOLDED: ReadonlyMap<number, number> = new Map([
  ...Array.from({ length: 26 }, (_, letter) => [65 + letter, 97 + letter] as const),
  [0x017f, 115],
  [0x212a, 107],
  [0x0130, 105],
  [0x0131, 105],
]);

export function foldCase(name: string): string {
  return name.replaceAll(/[A-Z\u017f\u212a\u0130\u0131]/g, (letter) => String.fromCharCode(FOLDED.get(letter.charCodeAt(0)) ?? 0));
}

export function isSpelledOtherwise(text: string, start: number, name: string): boolean {
  let isSame = true;
  for (let index = 0; index < name.length; index++) {
    const code = text.charCodeAt(start + index);
    const expected = name.charCodeAt(index);
    if (code === expected) continue;
    if ((FOLDED.get(code) ?? code) !== (FOLDED.get(expected) ?? expected)) return false;
    isSame = false;
  }
  return !isSame;
}

/** Some parsers ignore case, or end strings at NUL. @param name is ASCII. */
export function isMistakenFor(key: string, name: string): boolean {
  return key.length === name.length ? isSpelledOtherwise(key, 0, name) : key.startsWith(`${name}\0`);
}

/**
 * Returns the first name that occurs twice in one object, at any depth. @param start of a value in valid text, without white space before
 * it.
 */
export function findRepeatedName(text: string, start: number): string | undefined {
  const outer: (Set<string> | undefined)[] = [];
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
    if (outer.length === 0) return undefined;
    index = end;
  }
  return undefined;
}
