import { isOtherCase } from "./folded-names.ts";

/**
 * Finds members in JSON text, so that an id or a progress token can be replaced and every other byte stays as it was sent: number
 * spelling, escapes, key order, unknown keys. All functions take text that `JSON.parse` has already accepted, so nothing is checked twice.
 */
export interface Span {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
}

export interface Members {
  /** In the order of the names asked for; the last occurrence where a name is repeated, as `JSON.parse` has it. */
  readonly spans: readonly (Span | undefined)[];
  /** The first of the names that occurs twice. Two parsers may disagree on which one counts. */
  readonly duplicate: string | undefined;
  /** The first member, as it is called there, that some readers would take for one of the names: see `isOtherCase`. */
  readonly otherCase: string | undefined;
}

export interface Edit {
  readonly span: Span;
  readonly text: string;
}

const QUOTE = 34;
const COMMA = 44;
const BACKSLASH = 92;
const OPEN_BRACKET = 91;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;

/** Below this, what a part keeps in memory does not matter. */
const LONG_TEXT = 16 * 1024;

/** A part that outlasts its text: V8 would keep all of a text for a slice of it. */
export function copyOf(text: string, { start, end }: Span): string {
  const part = text.slice(start, end);
  return text.length < LONG_TEXT ? part : Buffer.from(part).toString();
}

/** The value spans of the named members of the object whose text starts at `start` (white space before it is allowed). */
export function findMembers(text: string, start: number, names: readonly string[]): Members {
  const spans: (Span | undefined)[] = names.map(() => undefined);
  let duplicate: string | undefined;
  let otherCase: string | undefined;
  let index = skipWhitespace(text, skipWhitespace(text, start) + 1);
  while (text.charCodeAt(index) === QUOTE) {
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
    if (text.charCodeAt(index) !== COMMA) break;
    index = skipWhitespace(text, index + 1);
  }
  return { spans, duplicate, otherCase };
}

/** The span of a member below the object that starts at `start`, one name a level; undefined where a level is absent or no object. */
export function findPath(text: string, start: number, path: readonly string[]): Span | undefined {
  let span: Span | undefined = { start, end: text.length };
  for (const name of path) {
    if (text.charCodeAt(skipWhitespace(text, span.start)) !== OPEN_BRACE) return undefined;
    span = findMembers(text, span.start, [name]).spans[0];
    if (span === undefined) return undefined;
  }
  return span;
}

/** The edits that take the named member out of the object that starts at `start`, however often it occurs there. */
export function removeMember(text: string, start: number, name: string): Edit[] {
  const members: ListItem[] = [];
  let index = skipWhitespace(text, skipWhitespace(text, start) + 1);
  while (text.charCodeAt(index) === QUOTE) {
    const keyEnd = skipString(text, index);
    const end = skipValue(text, skipWhitespace(text, skipWhitespace(text, keyEnd) + 1));
    members.push({ start: index, end, isKept: matchName(text, index, keyEnd, [name]) === -1 });
    index = skipWhitespace(text, end);
    if (text.charCodeAt(index) === COMMA) index = skipWhitespace(text, index + 1);
  }
  return removeItems(members);
}

/** A member of an object, its key included, or an element of an array. */
interface ListItem extends Span {
  readonly isKept: boolean;
}

/** The edits that take those of all items of one object or array out of the text that are not kept. */
export function removeItems(items: readonly ListItem[]): Edit[] {
  // One goes with the comma behind it; those at the end go with the comma before them.
  const lastKept = items.findLastIndex(({ isKept }) => isKept);
  const edits: Edit[] = [];
  for (const [position, item] of items.slice(0, lastKept + 1).entries()) {
    const next = items[position + 1];
    if (!item.isKept && next !== undefined) edits.push({ span: { start: item.start, end: next.start }, text: "" });
  }
  const [firstOfEnd, last] = [items[lastKept + 1], items.at(-1)];
  if (firstOfEnd !== undefined && last !== undefined) {
    edits.push({ span: { start: items[lastKept]?.end ?? firstOfEnd.start, end: last.end }, text: "" });
  }
  return edits;
}

/** The spans of the elements of the array whose text starts at `start` (white space before it is allowed). */
export function findElements(text: string, start = 0): Span[] {
  const spans: Span[] = [];
  let index = skipWhitespace(text, skipWhitespace(text, start) + 1);
  while (index < text.length && text.charCodeAt(index) !== CLOSE_BRACKET) {
    const end = skipValue(text, index);
    spans.push({ start: index, end });
    index = skipWhitespace(text, end);
    if (text.charCodeAt(index) === COMMA) index = skipWhitespace(text, index + 1);
  }
  return spans;
}

/** The text with the edits made; they must not overlap. */
export function applyEdits(text: string, edits: readonly Edit[]): string {
  let result = "";
  let from = 0;
  for (const edit of edits.length > 1 ? edits.toSorted((a, b) => a.span.start - b.span.start) : edits) {
    result += text.slice(from, edit.span.start) + edit.text;
    from = edit.span.end;
  }
  return result + text.slice(from);
}

function matchName(text: string, keyStart: number, keyEnd: number, names: readonly string[]): number {
  const length = keyEnd - keyStart - 2;
  for (let position = 0; position < names.length; position++) {
    const name = names[position] ?? "";
    if (name.length === length && text.startsWith(name, keyStart + 1)) return position;
  }
  // A key may be spelled with escapes ("\u0069d"); JSON.parse would take it for the same member.
  const key = text.slice(keyStart, keyEnd);
  return key.includes("\\") ? names.indexOf(JSON.parse(key) as string) : -1;
}

function findOtherCase(text: string, keyStart: number, keyEnd: number, names: readonly string[]): string | undefined {
  const length = keyEnd - keyStart - 2;
  let key: string | undefined;
  for (const name of names) {
    // Every message has keys that are none of the names: mostly their length tells. Escapes only make a key longer.
    if (length < name.length) continue;
    key ??= readKey(text, keyStart, keyEnd);
    if (isOtherCase(key, name)) return key;
  }
  return undefined;
}

function readKey(text: string, keyStart: number, keyEnd: number): string {
  const key = text.slice(keyStart + 1, keyEnd - 1);
  return key.includes("\\") ? (JSON.parse(text.slice(keyStart, keyEnd)) as string) : key;
}

export function skipWhitespace(text: string, start: number): number {
  let index = start;
  for (;;) {
    const code = text.charCodeAt(index);
    if (code !== 32 && code !== 10 && code !== 13 && code !== 9) return index;
    index++;
  }
}

/** From an opening quote to just past the closing one. `indexOf` makes a megabyte of text cost microseconds, not milliseconds. */
export function skipString(text: string, start: number): number {
  let index = start;
  for (;;) {
    index = text.indexOf('"', index + 1);
    let backslashes = 0;
    while (text.charCodeAt(index - 1 - backslashes) === BACKSLASH) backslashes++;
    if (backslashes % 2 === 0) return index + 1;
  }
}

export function skipValue(text: string, start: number): number {
  const first = text.charCodeAt(start);
  if (first === QUOTE) return skipString(text, start);
  let index = start;
  let depth = 0;
  // The end of the text stops a bare number or word; inside brackets, valid JSON closes them first.
  while (index < text.length) {
    const code = text.charCodeAt(index);
    if (code === QUOTE) {
      index = skipString(text, index);
      continue;
    }
    if (code === OPEN_BRACE || code === OPEN_BRACKET) depth++;
    else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
      if (depth === 0) return index;
      depth--;
      if (depth === 0) return index + 1;
    } else if (depth === 0 && (code === COMMA || code === 32 || code === 10 || code === 13 || code === 9)) return index;
    index++;
  }
  return index;
}
