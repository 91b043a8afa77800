import { skipString, skipValue } from "../../json/find.ts";
import { decodeString, type Span } from "../../json/strings.ts";
import { Code, skipWhitespace } from "../../json/tokens.ts";

/** A member of an object: the span is that of its value. */
export interface Member extends Span {
  readonly name: string;
  /** The name as it is spelled, with its quotes. */
  readonly key: Span;
}

/** By name; the last occurrence if a name is repeated. */
export type MemberMap = ReadonlyMap<string, Member>;

/** An element of `result.content`. */
export interface Item extends Span {
  /** Undefined where it is no object. */
  readonly members: MemberMap | undefined;
}

/** Where the parts of a JSON-RPC response are in its text. What is undefined is absent, or of another type. */
export interface ResponseOutline {
  envelope: MemberMap;
  result: MemberMap | undefined;
  meta: MemberMap | undefined;
  content: Item[] | undefined;
  /** Of all of `content`; not all may be listed. */
  itemCount: number;
  error: MemberMap | undefined;
  /** False if the result, its `_meta` or the error has more members than were read. */
  isComplete: boolean;
}

/** No item of content is shorter, so this bounds how many are worth a look. */
const MIN_ITEM_BYTES = 24;

/** `"":0,`. More members than there is room for are not remembered, but for those that mean something. */
const MIN_MEMBER_BYTES = 5;
/** The names of so many members are read in an object below the envelope, so that the reading takes 100 ms at most. */
const MAX_NAMES = 1_000_000;
const MEANT: ReadonlySet<string> = new Set(
  "id result error code message data content structuredContent isError _meta task type text mimeType uri resource".split(" "),
);

/**
 * Reads the outline of a response in one pass: the text may have many megabytes, and nothing of it is parsed or copied.
 *
 * @param text a valid JSON object.
 * @param maxBytes what can be kept of it at most.
 */
export function outlineResponse(text: string, maxBytes: number): ResponseOutline {
  const outline: ResponseOutline = {
    envelope: new Map(),
    result: undefined,
    meta: undefined,
    content: undefined,
    itemCount: 0,
    error: undefined,
    isComplete: true,
  };
  const maxItems = maxBytes / MIN_ITEM_BYTES;
  const maxMembers = maxBytes / MIN_MEMBER_BYTES;
  outline.envelope = readObject(
    text,
    skipWhitespace(text, 0),
    maxMembers,
    (name, start) => {
      const isObject = text.charCodeAt(start) === Code.openBrace;
      if (name === "error") {
        const read = isObject ? readObject(text, start, maxMembers) : undefined;
        outline.error = read?.members;
        outline.isComplete &&= read?.isComplete !== false;
        return read?.end;
      }
      if (name !== "result") return undefined;
      outline.meta = outline.content = undefined;
      const read = isObject ? readObject(text, start, maxMembers, readOfResult) : undefined;
      outline.result = read?.members;
      outline.isComplete &&= read?.isComplete !== false;
      return read?.end;
    },
    Number.POSITIVE_INFINITY,
  ).members;
  return outline;

  function readOfResult(name: string, start: number): number | undefined {
    if (name === "_meta") {
      const read = text.charCodeAt(start) === Code.openBrace ? readObject(text, start, maxMembers) : undefined;
      outline.meta = read?.members;
      outline.isComplete &&= read?.isComplete !== false;
      return read?.end;
    }
    if (name !== "content") return undefined;
    outline.content = undefined;
    if (text.charCodeAt(start) !== Code.openBracket) return undefined;
    const items: Item[] = [];
    outline.content = items;
    outline.itemCount = 0;
    let index = skipWhitespace(text, start + 1);
    while (text.charCodeAt(index) !== Code.closeBracket) {
      if (items.length > maxItems) {
        const rest = countElements(text, index);
        outline.itemCount = items.length + rest.count;
        return rest.end + 1;
      }
      const read = text.charCodeAt(index) === Code.openBrace ? readObject(text, index, maxMembers) : undefined;
      const end = read?.end ?? skipValue(text, index);
      items.push({ start: index, end, members: read?.members });
      index = skipWhitespace(text, end);
      if (text.charCodeAt(index) === Code.comma) index = skipWhitespace(text, index + 1);
    }
    outline.itemCount = items.length;
    return index + 1;
  }
}

/**
 * The members of the object that begins at `start`.
 *
 * @param maxMembers where there are more, they cannot all be kept; the first ones suffice to tell that.
 * @param readValue reads a value that is of interest, and returns its end; undefined for one that is to be skipped.
 * @param maxNames members after these are skipped.
 */
export function readObject(
  text: string,
  start: number,
  maxMembers = Number.POSITIVE_INFINITY,
  readValue?: (name: string, start: number) => number | undefined,
  maxNames = MAX_NAMES,
): { readonly members: MemberMap; readonly end: number; readonly isComplete: boolean } {
  const members = new Map<string, Member>();
  let index = skipWhitespace(text, start + 1);
  for (let count = 0; text.charCodeAt(index) === Code.quote; count++) {
    if (count === maxNames) return { members, end: countElements(text, index).end + 1, isComplete: false };
    const key = { start: index, end: skipString(text, index) };
    const name = decodeString(text, key.start, key.end);
    const valueStart = skipWhitespace(text, skipWhitespace(text, key.end) + 1);
    const end = readValue?.(name, valueStart) ?? skipValue(text, valueStart);
    if (members.size <= maxMembers || members.has(name) || MEANT.has(name)) members.set(name, { name, key, start: valueStart, end });
    index = skipWhitespace(text, end);
    if (text.charCodeAt(index) === Code.comma) index = skipWhitespace(text, index + 1);
  }
  return { members, end: index + 1, isComplete: true };
}

/**
 * The elements or members from the one at `start` on, and the position of the bracket behind the last one. One loop reads them all: there may be
 * thirty million, and a call for each would cost most of a second.
 */
function countElements(text: string, start: number): { readonly count: number; readonly end: number } {
  let count = 1;
  let depth = 0;
  let index = start;
  while (index < text.length) {
    const code = text.charCodeAt(index);
    if (code === Code.quote) {
      index = skipString(text, index);
      continue;
    }
    if (code === Code.comma) {
      if (depth === 0) count++;
    } else if (code === Code.openBrace || code === Code.openBracket) depth++;
    else if (code === Code.closeBrace || code === Code.closeBracket) {
      if (depth === 0) break;
      depth--;
    }
    index++;
  }
  return { count, end: index };
}

export function isStringValue(text: string, span: Span | undefined): span is Span {
  return span !== undefined && text.charCodeAt(span.start) === Code.quote;
}

/** What a string stands for; undefined for what is none, or has more than `maxLength` units in JSON. */
export function readString(text: string, span: Span | undefined, maxLength: number): string | undefined {
  if (!isStringValue(text, span) || span.end - span.start > maxLength) return undefined;
  return decodeString(text, span.start, span.end);
}

/** The UTF-8 bytes of a part; more than `maxBytes` where it has more, without counting. */
export function bytesOf(text: string, { start, end }: Span, maxBytes = Number.POSITIVE_INFINITY): number {
  return end - start > maxBytes ? Number.POSITIVE_INFINITY : Buffer.byteLength(text.slice(start, end));
}

/** `"key":value`, both as they are spelled. */
export function memberText(text: string, { key, start, end }: Member): string {
  return `${text.slice(key.start, key.end)}:${text.slice(start, end)}`;
}
