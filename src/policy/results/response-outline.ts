import { decodeString, type Span } from "../../json/strings.ts";
import { Code } from "../../json/tokens.ts";
import { skipString, skipValue, STOP, walkElements, walkMembers } from "../../json/walk.ts";

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
  /** Of its `resource`, if that is an object. */
  readonly resource: MemberMap | undefined;
}

/** No item of content is shorter, so this bounds how many are worth a look. */
const MIN_ITEM_BYTES = 24;
/** `"":0,`. More members than there is room for are not remembered, but for those that mean something. */
const MIN_MEMBER_BYTES = 5;
/**
 * So many names are read in one response, of its envelope and result and of what is further inside: a name costs twenty times as much as one
 * that is passed over, and a server may send ten million.
 */
const MAX_OUTER_NAMES = 100_000;
const MAX_INNER_NAMES = 200_000;
const MAX_ITEMS = 100_000;
/** A longer name means nothing: it is not decoded. In UTF-16 units, its quotes included. */
const MAX_NAME_LENGTH = 128;
const MEANT: ReadonlySet<string> = new Set(
  (
    "id result error code message data content structuredContent isError _meta type text mimeType uri resource blob " +
    "task taskId status createdAt lastUpdatedAt ttl pollInterval"
  ).split(" "),
);

/**
 * Where the parts of a JSON-RPC response are in its text. What is undefined is absent, or of another type. The text is read in one pass: it
 * may have many megabytes, and nothing of it is parsed or copied.
 */
export class ResponseOutline {
  readonly envelope: MemberMap;
  result: MemberMap | undefined;
  meta: MemberMap | undefined;
  content: Item[] | undefined;
  /** Of all of `content`; not all may be listed. */
  itemCount = 0;
  error: MemberMap | undefined;
  /** The `task` of the result. */
  task: MemberMap | undefined;
  /** False if an object that was read has more members than were read. */
  isComplete = true;
  /** False if the envelope or the result has more members than were read. */
  isResultComplete = true;
  readonly text: string;
  readonly #maxMembers: number;
  #itemsLeft: number;
  #outerNamesLeft = MAX_OUTER_NAMES;
  #innerNamesLeft = MAX_INNER_NAMES;

  /**
   * @param text a valid JSON object.
   * @param maxBytes what can be kept of it at most.
   */
  constructor(text: string, maxBytes: number) {
    this.text = text;
    this.#itemsLeft = Math.min(MAX_ITEMS, Math.ceil(maxBytes / MIN_ITEM_BYTES));
    this.#maxMembers = maxBytes / MIN_MEMBER_BYTES;
    this.envelope = this.#readObject(0, true, (name, start) => {
      if (name === "error") {
        const read = this.#readIfObject(start);
        this.error = read?.members;
        return read?.end;
      }
      if (name !== "result") return undefined;
      this.meta = this.content = this.task = undefined;
      this.itemCount = 0;
      const read = this.#readIfObject(start, (inner, innerStart) => this.#readOfResult(inner, innerStart), true);
      this.result = read?.members;
      return read?.end;
    }).members;
  }

  #readOfResult(name: string, start: number): number | undefined {
    if (name === "_meta" || name === "task") {
      const read = this.#readIfObject(start);
      this[name === "task" ? "task" : "meta"] = read?.members;
      return read?.end;
    }
    if (name !== "content") return undefined;
    this.content = undefined;
    this.itemCount = 0;
    return this.text.charCodeAt(start) === Code.openBracket ? this.#readContent(start) : undefined;
  }

  /** @returns the end of the array. */
  #readContent(start: number): number {
    const { text } = this;
    const items: Item[] = [];
    this.content = items;
    const stop = walkElements(text, start, (itemStart) => {
      if (this.#itemsLeft < 0 || this.#innerNamesLeft === 0) return STOP;
      this.#itemsLeft--;
      let resource: MemberMap | undefined;
      const read = this.#readIfObject(itemStart, (name, valueStart) => {
        if (name !== "resource") return undefined;
        const inner = this.#readIfObject(valueStart);
        resource = inner?.members;
        return inner?.end;
      });
      const end = read?.end ?? skipValue(text, itemStart);
      items.push({ start: itemStart, end, members: read?.members, resource });
      return end;
    });
    const rest = text.charCodeAt(stop) === Code.closeBracket ? { count: 0, end: stop } : countElements(text, stop);
    this.itemCount = items.length + rest.count;
    return rest.end + 1;
  }

  #readIfObject(start: number, readValue?: ReadValue, isOuter = false): ObjectRead | undefined {
    if (this.text.charCodeAt(start) !== Code.openBrace) return undefined;
    const { members, end } = this.#readObject(start, isOuter, readValue);
    const isRead = this.text.charCodeAt(end) === Code.closeBrace;
    return { members, end: (isRead ? end : countElements(this.text, end).end) + 1 };
  }

  /** @returns false if no more names may be read. */
  #takeName(isOuter: boolean): boolean {
    const hasLeft = (isOuter ? this.#outerNamesLeft : this.#innerNamesLeft) > 0;
    if (!hasLeft) {
      this.isComplete = false;
      this.isResultComplete &&= !isOuter;
    } else if (isOuter) this.#outerNamesLeft--;
    else this.#innerNamesLeft--;
    return hasLeft;
  }

  /** @returns as the end the closing brace, or the first name that is not read. */
  #readObject(start: number, isOuter: boolean, readValue?: ReadValue): ObjectRead {
    const { text } = this;
    const members = new Map<string, Member>();
    const end = walkMembers(text, start, (keyStart, keyEnd, valueStart) => {
      if (!this.#takeName(isOuter)) return STOP;
      const isLong = keyEnd - keyStart > MAX_NAME_LENGTH;
      const name = isLong ? text.slice(keyStart, keyEnd) : decodeString(text, keyStart, keyEnd);
      const valueEnd = readValue?.(name, valueStart) ?? skipValue(text, valueStart);
      if (members.size <= this.#maxMembers || members.has(name) || MEANT.has(name))
        members.set(name, { name, key: { start: keyStart, end: keyEnd }, start: valueStart, end: valueEnd });
      return valueEnd;
    });
    return { members, end };
  }
}

/** Reads a value that is of interest. @returns its end; undefined for one that is to be skipped. */
type ReadValue = (name: string, start: number) => number | undefined;

interface ObjectRead {
  readonly members: MemberMap;
  readonly end: number;
}

/**
 * Counts the elements, or members, from `start` on, and finds the bracket behind the last one. One loop: a call for each would take most of a
 * second.
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
