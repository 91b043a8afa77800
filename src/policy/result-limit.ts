import type { Context } from "../context.ts";
import { findMembers } from "../json/find.ts";
import { Code, decodeString, detached, skipString, skipValue, type Span, STOP, walkElements, walkMembers } from "../json/text.ts";
import { type ErrorData, SidecarError } from "../mcp/errors.ts";
import { type Exchange, RewrittenExchange } from "../session/session.ts";

/** A member of an object, or an element of an array. The span is that of the value. */
interface Part extends Span {
  /** The start of the name with its quote; of the value for an element. */
  readonly from: number;
  /** Undefined for another value than an object, and for one that is not looked into. */
  readonly members?: Parts;
  /** The first elements. Undefined for another value than an array, and for one that is not looked into. */
  readonly elements?: readonly Part[];
  /** The number of all elements. */
  readonly elementCount?: number;
}

/** The parts by name. The last one counts if a name is repeated. */
type Parts = ReadonlyMap<string, Part>;

/** The members that are looked into; `[]` stands for each element of an array. */
interface Shape {
  readonly [name: string]: Shape;
}
const RESULT: Shape = { content: { "[]": { resource: {} } }, _meta: {}, task: {} };
const RESPONSE: Shape = { result: RESULT, error: {} };

/** A server may send ten million names and elements. One that is read takes twenty times as long as one that is skipped. */
const MAX_READ = 100_000;
/** A member with a longer name is skipped. In UTF-16 units with quotes: `structuredContent` has 104 with an escape for each letter. */
const MAX_NAME_LENGTH = 128;

/**
 * Finds the parts of a JSON-RPC response in one pass. Values are not parsed, copied or checked.
 *
 * @param text a valid JSON object.
 * @returns the members. `isComplete` is false if the response or its result has more members than were read.
 */
function findParts(text: string): { readonly parts: Parts; readonly isComplete: boolean } {
  const outer = { left: MAX_READ };
  const inner = { left: MAX_READ };
  const parts = readObject(0, 0, RESPONSE).members ?? new Map<string, Part>();
  return { parts, isComplete: outer.left >= 0 };

  // Recurses as deep as the shape, not as the text.
  function read(from: number, start: number, shape: Shape | undefined): Part {
    const first = text.charCodeAt(start);
    if (shape !== undefined && first === Code.openBrace) return readObject(from, start, shape);
    if (shape?.["[]"] !== undefined && first === Code.openBracket) return readArray(from, start, shape["[]"]);
    return { from, start, end: skipValue(text, start) };
  }

  function readObject(from: number, start: number, shape: Shape): Part {
    const members = new Map<string, Part>();
    const budget = shape === RESPONSE || shape === RESULT ? outer : inner;
    const stop = walkMembers(text, start, (keyStart, keyEnd, valueStart) => {
      if (budget.left-- <= 0) return STOP;
      const name = keyEnd - keyStart > MAX_NAME_LENGTH ? undefined : decodeString(text, keyStart, keyEnd);
      const part = read(keyStart, valueStart, name !== undefined && Object.hasOwn(shape, name) ? shape[name] : undefined);
      if (name !== undefined) members.set(name, part);
      return part.end;
    });
    return { from, start, end: skipRest(text, stop).end, members };
  }

  function readArray(from: number, start: number, shape: Shape): Part {
    const elements: Part[] = [];
    const stop = walkElements(text, start, (elementStart) => {
      if (inner.left-- <= 0) return STOP;
      const part = read(elementStart, elementStart, shape);
      elements.push(part);
      return part.end;
    });
    const rest = skipRest(text, stop);
    return { from, start, end: rest.end, elements, elementCount: elements.length + rest.count };
  }
}

/** Skips and counts members or elements up to the closing bracket. A callback for each would take most of a second. */
function skipRest(text: string, start: number): { readonly count: number; readonly end: number } {
  const first = text.charCodeAt(start);
  let count = first === Code.closeBrace || first === Code.closeBracket ? 0 : 1;
  let depth = 0;
  let index = start;
  for (; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === Code.quote) index = skipString(text, index) - 1;
    else if (code === Code.comma) {
      if (depth === 0) count++;
    } else if (code === Code.openBrace || code === Code.openBracket) depth++;
    else if ((code === Code.closeBrace || code === Code.closeBracket) && depth-- === 0) break;
  }
  return { count, end: index + 1 };
}

/** A text is not cut shorter, in bytes. */
const LEAST_TEXT_BYTES = 48;
const COMMA_BYTES = 1;
/** Other members of a cut text item, such as annotations, are kept up to this length. In UTF-16 units. */
const MAX_FRAME_LENGTH = 256;
/** The greatest length of a type, URI or media type in a note, in UTF-16 units with quotes. Notes omit longer ones. */
const MAX_NOTED_LENGTH = 200;

/** A character of a JSON string as it is spelled: two escapes that are a surrogate pair, one escape, or one UTF-16 unit. */
const CHARACTER = /\\u[dD][89abAB][^]{2}\\u[dD][c-fC-F][^]{2}|\\u[^]{4}|\\?[^]/y;
/** More than the length of a character. */
const LOOK_BEHIND = 16;

const encoder = new TextEncoder();

/**
 * Shortens content. Texts that do not fit are cut, other items are replaced by a note. Small items are kept. Texts get the remaining room in
 * their order, then other items do. If not even notes fit, items at the end are dropped.
 *
 * @returns the JSON texts of the first items, in at most `roomBytes` bytes with a comma each.
 */
function limitContent(text: string, items: readonly Part[], roomBytes: number): string[] {
  let leftBytes = roomBytes;
  const chosen: { readonly item: Part; readonly isText: boolean; readonly reservedBytes: number; kept: string }[] = [];
  for (const item of items) {
    const isText = textIn(text, item) !== undefined;
    const shortestBytes = Buffer.byteLength(shortenItem(text, item, 0)) + (isText ? LEAST_TEXT_BYTES : 0);
    const reservedBytes = Math.min(bytesOf(text, item), shortestBytes) + COMMA_BYTES;
    if (reservedBytes > leftBytes) break;
    leftBytes -= reservedBytes;
    chosen.push({ item, isText, reservedBytes, kept: "" });
  }
  for (const each of [...chosen.filter(({ isText }) => isText), ...chosen.filter(({ isText }) => !isText)]) {
    leftBytes += each.reservedBytes;
    each.kept = shortenItem(text, each.item, leftBytes - COMMA_BYTES);
    leftBytes -= Buffer.byteLength(each.kept) + COMMA_BYTES;
  }
  return chosen.map(({ kept }) => kept);
}

/**
 * The inside of a JSON string in at most `maxBytes` bytes, if the last line of a cut text fits.
 *
 * @param span of the string in `text`, with its quotes.
 */
function shortenText(text: string, span: Span, maxBytes: number): string {
  const bytes = bytesOf(text, { start: span.start + 1, end: span.end - 1 });
  if (bytes <= maxBytes) return text.slice(span.start + 1, span.end - 1);
  const kept = cutString(text, span, maxBytes - lastLine(bytes, bytes).length);
  return kept + lastLine(bytes - Buffer.byteLength(kept), bytes);
}

/**
 * The longest beginning of a JSON string that has at most `maxBytes` bytes of UTF-8. Escapes and surrogate pairs stay whole.
 *
 * @param span of the string in `text`, with its quotes.
 * @returns the beginning as it is spelled there, without quotes.
 */
function cutString(text: string, span: Span, maxBytes: number): string {
  const [from, to] = [span.start + 1, span.end - 1];
  if (maxBytes <= 0) return "";
  // A unit has at least one byte.
  const longest = text.slice(from, Math.min(to, from + maxBytes));
  // Splits no surrogate pair.
  const cut = from + encoder.encodeInto(longest, new Uint8Array(maxBytes)).read;
  if (cut >= to) return longest;
  let index = unescapedIndex(text, from, cut - LOOK_BEHIND);
  for (;;) {
    CHARACTER.lastIndex = index;
    if (!CHARACTER.test(text) || CHARACTER.lastIndex > cut) return text.slice(from, index);
    index = CHARACTER.lastIndex;
  }
}

/** An item of the sidecar's own. */
function textItem(text: string): string {
  return `{"type":"text","text":${JSON.stringify(text)}}`;
}

/** The size in UTF-8. */
function bytesOf(text: string, { start, end }: Span): number {
  return Buffer.byteLength(text.slice(start, end));
}

function isString(text: string, part: Part | undefined): part is Part {
  return part !== undefined && text.charCodeAt(part.start) === Code.quote;
}

function lastLine(omittedBytes: number, bytes: number): string {
  return String.raw`\n[truncated: ${omittedBytes} of ${bytes} bytes omitted; ask for less at a time]`;
}

function shortenItem(text: string, item: Part, roomBytes: number): string {
  if (bytesOf(text, item) <= roomBytes) return text.slice(item.start, item.end);
  const inner = textIn(text, item);
  if (inner === undefined) return omissionNote(text, item);
  let before = text.slice(item.start, inner.start + 1);
  let after = text.slice(inner.end - 1, item.end);
  if (before.length + after.length > MAX_FRAME_LENGTH) [before, after] = ['{"type":"text","text":"', '"}'];
  return before + shortenText(text, inner, roomBytes - Buffer.byteLength(before + after)) + after;
}

/** The text of a text item. */
function textIn(text: string, { members }: Part): Part | undefined {
  const inner = members?.get("text");
  return isString(text, inner) && stringIn(text, members?.get("type")) === "text" ? inner : undefined;
}

function omissionNote(text: string, item: Part): string {
  const resource = item.members?.get("resource")?.members;
  const names = ["type", "uri", "mimeType"].map((name) => stringIn(text, item.members?.get(name) ?? resource?.get(name)));
  return textItem(`[omitted: ${[...names, `${bytesOf(text, item)} bytes`].filter((name) => name !== "").join(", ")}]`);
}

/** Returns the string, or an empty one if the part is not a string or is too long for a note. */
function stringIn(text: string, part: Part | undefined): string {
  return isString(text, part) && part.end - part.start <= MAX_NOTED_LENGTH ? decodeString(text, part.start, part.end) : "";
}

/** Returns `near`, or the index after it if a backslash escapes the unit at `near`. */
function unescapedIndex(text: string, from: number, near: number): number {
  if (near <= from) return from;
  let first = near;
  while (first > from && text.charCodeAt(first - 1) === Code.backslash) first--;
  return (near - first) % 2 === 0 ? near : near + 1;
}

/** The share of the limit for unknown members of a result, and the same again for those of its `_meta`. */
const UNKNOWN_SHARE = 1 / 8;
const MAX_CODE_LENGTH = 32;
const RESULT_NAMES: ReadonlySet<string> = new Set(["content", "structuredContent", "isError", "_meta", "task"]);
const MARK_NAMES: ReadonlySet<string> = new Set(["truncated", "originalBytes", "keptBytes"]);
/** The members of a task that a client needs to get its result later. */
const TASK_NAMES: readonly string[] = ["taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"];
const NO_PARTS: Parts = new Map();

const IS_ERROR = '"isError":true';
const NOT_A_RESULT = `"content":[${textItem("[Response too large and not a tool result; content omitted]")}]`;
/** The shortest error, without an id. */
const NO_ROOM = '{"jsonrpc":"2.0","error":{"code":-32603,"message":"MAX_RESULT_BYTES leaves no room for a response"}}';
/** The size of the item that counts the omitted parts, with three numbers of ten digits and a comma. */
const LAST_ITEM_BYTES = lastItem(["0 of 0 items", "structuredContent of 0 bytes"]).length + 3 * 9 + 1;

interface LongResponse {
  readonly text: string;
  /** The beginning of the short response, with its id. */
  readonly open: string;
  readonly originalBytes: number;
  readonly maxBytes: number;
}

/** The possible responses: the best one first, and then the shortest one, which has no sizes. */
type Candidates = readonly [best: readonly string[], bare: string];

/**
 * Shortens the response to a tool call to at most `maxBytes` bytes of UTF-8. It stays a valid response of the same kind with the same id.
 * docs/decisions/0012 says which parts are omitted.
 *
 * @param body the text of a JSON-RPC response.
 * @param requestId the JSON text of its id, for a response with so many members that the id is not found.
 * @returns undefined if the body fits. If even the shortest response is longer than `maxBytes`, that one is returned.
 */
export function limitBody(body: string, maxBytes: number, requestId = ""): string | undefined {
  // A UTF-16 unit takes at most three bytes.
  if (body.length * 3 <= maxBytes) return undefined;
  const originalBytes = Buffer.byteLength(body);
  if (originalBytes <= maxBytes) return undefined;
  const { parts, isComplete } = findParts(body);
  const [id, result, error] = ["id", "result", "error"].map((name) => parts.get(name));
  const idText = id === undefined ? requestId : body.slice(id.start, id.end);
  const response = { text: body, open: `{"jsonrpc":"2.0",${idText === "" ? "" : `"id":${idText},`}`, originalBytes, maxBytes };
  // A member that was not read could be `isError`.
  const [best, bare] =
    error !== undefined && result === undefined
      ? limitError(response, error.members)
      : limitResult(response, isComplete ? result?.members : undefined);
  const shortest = bare.length < NO_ROOM.length ? bare : NO_ROOM;
  const shortened = [...best, bare, NO_ROOM].find((each) => Buffer.byteLength(each) <= maxBytes) ?? shortest;
  return detached(shortened, body);
}

function limitError(response: LongResponse, error: Parts = NO_PARTS): Candidates {
  const { text, open, maxBytes } = response;
  const [code, message] = [error.get("code"), error.get("message")];
  const codeText = code !== undefined && code.end - code.start <= MAX_CODE_LENGTH ? text.slice(code.start, code.end) : "-32603";
  const write = (inner: string): string => withMarks(response, `${open}"error":{"code":${codeText},"message":"${inner}","data":{`);
  const roomBytes = maxBytes - Buffer.byteLength(write(""));
  const inner = isString(text, message) ? shortenText(text, message, roomBytes) : "[truncated]";
  return [[write(inner)], `${open}"error":{"code":${codeText},"message":"[truncated]"}}`];
}

function limitResult(response: LongResponse, result: Parts = NO_PARTS): Candidates {
  const { text, open, maxBytes } = response;
  const [content, structured, flag, task] = ["content", "structuredContent", "isError", "task"].map((name) => result.get(name));
  const unknown = fitting(text, withoutNames(result, RESULT_NAMES), maxBytes * UNKNOWN_SHARE);
  const meta = fitting(text, withoutNames(result.get("_meta")?.members, MARK_NAMES), maxBytes * UNKNOWN_SHARE);
  const write = (members: readonly string[]): string =>
    withMarks(response, `${open}"result":{${members.join(",")},"_meta":{${meta.map((each) => `${each},`).join("")}`);
  const bare = (flags: readonly string[]): string =>
    `${open}"result":{${['"content":[]', ...flags].join(",")},"_meta":{"truncated":true}}}`;

  if (content?.elements !== undefined || (content === undefined && structured !== undefined)) {
    const flagText = flag === undefined ? "" : text.slice(flag.start, flag.end);
    const flags = flagText === "true" || flagText === "false" ? [`"isError":${flagText}`] : [];
    const roomBytes = maxBytes - Buffer.byteLength(write(['"content":[]', ...flags, ...unknown]));
    return [[write([...limitMembers(text, content, structured, roomBytes), ...flags, ...unknown])], bare(flags)];
  }
  const needed = TASK_NAMES.flatMap((name) => task?.members?.get(name) ?? []);
  const kept = fitting(text, needed, maxBytes);
  const isTask = task?.members?.has("taskId") === true && kept.length === needed.length;
  const taskResponses = isTask ? [write([`"task":{${kept.join(",")}}`, ...unknown])] : [];
  return [[...taskResponses, write([NOT_A_RESULT, IS_ERROR])], bare([IS_ERROR])];
}

/** Returns the content of a result, and its structuredContent if that fits beside the content. */
function limitMembers(text: string, content: Part | undefined, structured: Part | undefined, roomBytes: number): string[] {
  const { elements = [], elementCount = 0 } = content ?? {};
  const itemsBytes = elementCount <= 1 && structured === undefined ? roomBytes : roomBytes - LAST_ITEM_BYTES;
  const items = limitContent(text, elements, itemsBytes);
  const leftBytes = itemsBytes - Buffer.byteLength(items.join(","));
  const structuredMember = structured === undefined ? [] : fitting(text, [structured], leftBytes);
  const omitted: string[] = [];
  if (items.length < elementCount) omitted.push(`${elementCount - items.length} of ${elementCount} items`);
  if (structured !== undefined && structuredMember.length === 0) omitted.push(`structuredContent of ${bytesOf(text, structured)} bytes`);
  if (omitted.length > 0) items.push(lastItem(omitted));
  return [`"content":[${items.join(",")}]`, ...structuredMember];
}

function lastItem(omitted: readonly string[]): string {
  return textItem(`[omitted: ${omitted.join(", ")}; ask for less at a time]`);
}

/** Returns `start` with the marks at its end. `keptBytes` is the size of the whole, so spaces keep the width of the number fixed. */
function withMarks({ originalBytes }: LongResponse, start: string): string {
  const marked = `${start}"truncated":true,"originalBytes":${originalBytes},"keptBytes":`;
  const width = String(originalBytes).length;
  const keptBytes = Buffer.byteLength(marked) + width + "}}}".length;
  return `${marked}${String(keptBytes).padEnd(width)}}}}`;
}

function withoutNames(parts: Parts = NO_PARTS, names: ReadonlySet<string>): Part[] {
  return [...parts].filter(([name]) => !names.has(name)).map(([, part]) => part);
}

/** Returns each member that fits in the remaining room, with its name and spelling unchanged. Each one counts with a comma. */
function fitting(text: string, members: readonly Part[], roomBytes: number): string[] {
  let leftBytes = roomBytes;
  return members
    .map(({ from, end }) => text.slice(from, end))
    .filter((member) => {
      const bytes = Buffer.byteLength(member) + 1;
      if (bytes > leftBytes) return false;
      leftBytes -= bytes;
      return true;
    });
}

/** A JSON-RPC error besides its id, its message and its data. */
const ERROR_BYTES = '{"jsonrpc":"2.0","id":,"error":{"code":-32000,"message":}}'.length;
const DATA_BYTES = ',"data":'.length;
/** A message is not cut shorter than this. It still has the method or tool, and the beginning of the reason. */
const USEFUL_BYTES = 64;

/** An error without some members of its data. `details` still decides about the HTTP status and its headers. */
class ShortenedError extends SidecarError {
  readonly #data: ErrorData | undefined;

  constructor({ code, details }: SidecarError, message: string, data?: ErrorData) {
    const { stderrTail: _, ...others } = details;
    super(code, message, data?.stderrTail === undefined ? others : { ...others, stderrTail: data.stderrTail });
    this.#data = data;
  }

  override get data(): ErrorData | undefined {
    return this.#data;
  }
}

/**
 * Shortens an error of the sidecar, so that its JSON-RPC response has at most `maxBytes` bytes. The data is shortened first, then the
 * message. The shortest error has its code as the message.
 *
 * @returns the JSON text of an error without id if only that one fits.
 */
export function limitFailure(error: SidecarError, idText: string, maxBytes: number): SidecarError | string {
  const { code, message } = error;
  const roomBytes = maxBytes - ERROR_BYTES - Buffer.byteLength(idText);
  if (jsonBytes(message) + dataBytes(error.data) <= roomBytes) return error;
  const shortened = shorterData(error.data);
  const short = shortened.find((data) => jsonBytes(message) + dataBytes(data) <= roomBytes);
  if (short !== undefined) return new ShortenedError(error, message, short);
  const text = JSON.stringify(message);
  for (const data of [shortened.at(-1), undefined]) {
    const messageBytes = roomBytes - dataBytes(data) - '""'.length;
    if (messageBytes < Math.min(USEFUL_BYTES, jsonBytes(message) - '""'.length)) continue;
    const kept = `"${cutString(text, { start: 0, end: text.length }, messageBytes)}"`;
    return new ShortenedError(error, decodeString(kept, 0, kept.length), data);
  }
  const isShorterWithoutId = NO_ROOM.length < ERROR_BYTES + Buffer.byteLength(idText) + jsonBytes(code);
  return jsonBytes(code) > roomBytes && isShorterWithoutId ? NO_ROOM : new ShortenedError(error, code);
}

/** Returns the data without the older lines of stderr, without all of them, without advice, and with nothing but the facts about a retry. */
function shorterData(data: ErrorData | undefined): ErrorData[] {
  if (data === undefined) return [];
  const { stderrTail = [], ...withoutTail } = data;
  const { action: _, ...withoutAction } = withoutTail;
  const { code, sent, retrySafe } = data;
  const shorter: ErrorData[] = [];
  for (let from = 1; from < stderrTail.length; from++) shorter.push({ ...data, stderrTail: stderrTail.slice(from) });
  return [...shorter, withoutTail, withoutAction, { code, sent, retrySafe }];
}

function dataBytes(data: ErrorData | undefined): number {
  return data === undefined ? 0 : DATA_BYTES + jsonBytes(data);
}

function jsonBytes(value: string | ErrorData): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/** The size of an event without its message: `id: …`, `event: message`, `data: ` and the line ends. The first event of a stream has no message. */
const EVENT_BYTES = 64;
const COMMENT_BYTES = ": keep-alive\n\n".length;

/** The part of the body that any messages may take before the response. */
const AHEAD_PART = 1 / 2;
/** The part of the body up to which server requests are still sent, because the response may depend on them. */
const SERVER_REQUESTS_PART = 3 / 4;

/** An exchange whose whole HTTP body stays within a limit. The response gets the room that earlier messages have left. */
export class LimitedExchange extends RewrittenExchange {
  readonly #context: Context;
  #bytesAhead = 0;
  #isStream = false;

  constructor(context: Context, inner: Exchange) {
    super(inner, (body) => this.#shorten(body));
    this.#context = context;
  }

  /** @returns false also for a message that would leave too little room for the response. */
  override emit(body: string): boolean {
    if (this.sharedBy === 0) return this.inner.emit(body);
    const bytesAhead = this.#bytesAhead + Buffer.byteLength(body) + EVENT_BYTES;
    const shareBytes = (this.#context.config.maxResultBytes ?? Number.POSITIVE_INFINITY) / this.sharedBy;
    if (bytesAhead > shareBytes * AHEAD_PART && !(isServerRequest(body) && bytesAhead <= shareBytes * SERVER_REQUESTS_PART)) return false;
    if (!this.inner.emit(body)) return false;
    this.#isStream = true;
    this.#bytesAhead = bytesAhead;
    return true;
  }

  override keepAlive(): void {
    this.#isStream = true;
    this.inner.keepAlive();
  }

  override fail(error: SidecarError): void {
    const limited = limitFailure(error, this.idText, this.#roomBytes());
    if (typeof limited === "string") this.inner.respond(limited);
    else this.inner.fail(limited);
  }

  #shorten(body: string): string {
    const shortened = limitBody(body, this.#roomBytes(), this.idText);
    if (shortened !== undefined) this.#context.counters.policy.truncatedResults++;
    return shortened ?? body;
  }

  #roomBytes(): number {
    const { config, nowMs } = this.#context;
    const { keepAliveMs, maxResultBytes = Number.POSITIVE_INFINITY } = config;
    const maxBytes = maxResultBytes - (this.inner.addedBytes ?? 0);
    const { sharedBy, acceptedAtMs } = this;
    // In an endless stream, each response has the whole limit for itself.
    if (sharedBy === 0) return maxBytes - EVENT_BYTES;
    if (sharedBy === 1 && !this.#isStream) return maxBytes;
    // Another response of a batch may have begun the stream. A response as an array takes less.
    const commentsBytes = COMMENT_BYTES * (1 + Math.floor((nowMs() - acceptedAtMs) / keepAliveMs));
    // The first event of a stream has no message, and belongs to all responses.
    return Math.floor((maxBytes - EVENT_BYTES) / sharedBy) - EVENT_BYTES - this.#bytesAhead - commentsBytes;
  }
}

function isServerRequest(body: string): boolean {
  return findMembers(body, 0, ["id"]).spans[0] !== undefined;
}
