import type { Context } from "../context.ts";
import { findMembers } from "../json/find.ts";
import { Code, decodeString, detached, skipValue, type Span, STOP, walkElements, walkMembers } from "../json/text.ts";
import { type ErrorData, SidecarError } from "../mcp/errors.ts";
import { type Reply, RewrittenReply } from "../session/session.ts";

/** The members of a result with rules of their own. */
const RESULT_NAMES = ["content", "structuredContent", "isError", "resultType", "_meta", "task"];
/** The share of the limit for the other members of a result, and the same again for those of its `_meta`. */
const OTHERS_SHARE = 1 / 8;
/** A text is not cut shorter, in bytes. */
const LEAST_TEXT_BYTES = 48;
/** A server may send ten million members and items. An object with more members counts as none. */
const MAX_MEMBERS = 10_000;
/** After as many items that do not fit and are no texts, the rest is left out. */
const MAX_SKIPPED_ITEMS = 1000;
const MAX_CODE_LENGTH = 32;
const NOT_A_RESULT = `"content":[${textItem("[Response too large and not a tool result; content omitted]")}]`;
/** The shortest error, without an id. */
const NO_ROOM = '{"jsonrpc":"2.0","error":{"code":-32603,"message":"MAX_RESULT_BYTES leaves no room for a response"}}';

/** A response that is too long. */
interface LongResponse {
  readonly text: string;
  /** The beginning of the short one, with the id. */
  readonly open: string;
  readonly bytes: number;
  readonly maxBytes: number;
}

/**
 * Shortens the response to a tool call to at most `maxBytes` bytes of UTF-8. It stays a valid response of the same kind.
 * docs/decisions/0012 says which parts are omitted. What is kept is copied as it is spelled.
 *
 * @param text of a JSON-RPC response.
 * @param idText the JSON text of its id.
 * @returns undefined if the response fits. If even the shortest response is longer than `maxBytes`, that one is returned.
 */
export function limitBody(text: string, idText: string, maxBytes: number): string | undefined {
  // A UTF-16 unit takes at most three bytes.
  if (text.length * 3 <= maxBytes) return undefined;
  const bytes = Buffer.byteLength(text);
  if (bytes <= maxBytes) return undefined;
  const response = { text, open: `{"jsonrpc":"2.0","id":${idText},`, bytes, maxBytes };
  const [result, error] = findMembers(text, 0, ["result", "error"]).spans;
  const [best, bare] = error === undefined ? limitResult(response, result?.start) : limitError(response, error.start);
  const shortest = bare.length < NO_ROOM.length ? bare : NO_ROOM;
  return detached([best, bare, NO_ROOM].find((each) => Buffer.byteLength(each) <= maxBytes) ?? shortest, text);
}

function limitError({ text, open, bytes, maxBytes }: LongResponse, start: number): readonly [best: string, bare: string] {
  const members = readMembers(text, start, ["code", "message"])?.named;
  const [code, message] = [members?.get("code"), members?.get("message")];
  const codeText = code !== undefined && code.end - code.start <= MAX_CODE_LENGTH ? text.slice(code.start, code.end) : "-32603";
  const write = (shown: string): string =>
    `${open}"error":{"code":${codeText},"message":"${shown}","data":{"truncated":true,"originalBytes":${bytes}}}}`;
  let shown = "[truncated]";
  if (isString(text, message)) {
    const roomBytes = maxBytes - Buffer.byteLength(write(""));
    shown = text.slice(message.start + 1, message.end - 1);
    if (Buffer.byteLength(shown) > roomBytes) {
      const kept = cutString(text, message, roomBytes - lastLine(bytes, bytes).length);
      shown = kept + lastLine(bytes - Buffer.byteLength(write(kept)), bytes);
    }
  }
  return [write(shown), `${open}"error":{"code":${codeText},"message":"[truncated]"}}`];
}

function limitResult({ text, open, bytes, maxBytes }: LongResponse, start: number | undefined): readonly [best: string, bare: string] {
  const shareBytes = maxBytes * OTHERS_SHARE;
  const { named, others = [] } = readMembers(text, start, RESULT_NAMES, shareBytes) ?? {};
  const [content, structured] = ["content", "structuredContent"].map((name) => named?.get(name));
  const meta = readMembers(text, named?.get("_meta")?.start, ["truncated", "originalBytes"], shareBytes)?.others ?? [];
  const flags = ["isError", "resultType"].flatMap((name) => {
    const span = named?.get(name);
    return span !== undefined && span.end - span.start <= shareBytes ? [`"${name}":${text.slice(span.start, span.end)}`] : [];
  });
  const write = (...members: readonly string[]): string =>
    `${open}"result":{${members.join(",")},"_meta":{${[...meta, '"truncated":true', `"originalBytes":${bytes}`].join(",")}}}}`;
  const bare = (members: readonly string[]): string =>
    `${open}"result":{${['"content":[]', ...members].join(",")},"_meta":{"truncated":true}}}`;

  if (content === undefined ? structured === undefined : text.charCodeAt(content.start) !== Code.openBracket) {
    // A client needs a task to get its result later. Only a text in it may be long. In 2026-07-28, the result itself is the task.
    const nested = named?.get("task");
    const isFlat = nested === undefined && flags.includes('"resultType":"task"');
    const besides = isFlat ? flags : [...flags, ...others];
    const roomBytes = maxBytes - Buffer.byteLength(write('"task":{}', ...besides));
    const task = readMembers(text, isFlat ? start : nested?.start, isFlat ? RESULT_NAMES : [], roomBytes)?.others;
    const failed = ['"isError":true', ...(named?.has("resultType") === true ? ['"resultType":"complete"'] : [])];
    if (task === undefined) return [write(NOT_A_RESULT, ...failed), bare(failed)];
    return [write(...(isFlat ? task : [`"task":{${task.join(",")}}`]), ...besides), bare(failed)];
  }
  const rest = [...flags, ...others];
  const noteBytes = textItem("").length + lastLine(bytes, bytes).length;
  const { items, cutText, leftBytes, isWhole } = limitContent(
    text,
    content,
    maxBytes - Buffer.byteLength(write('"content":[]', ...rest)) - noteBytes,
  );
  const structuredText = structured && `"structuredContent":${text.slice(structured.start, structured.end)}`;
  const keepsStructured = structuredText !== undefined && Buffer.byteLength(structuredText) < leftBytes;
  if (keepsStructured) rest.push(structuredText);
  if (!isWhole || keepsStructured !== (structured !== undefined)) {
    const keptBytes = Buffer.byteLength(write(`"content":[${items.join(",")}]`, ...rest)) + Buffer.byteLength(cutText);
    const line = lastLine(bytes - keptBytes, bytes);
    items.push(`{"type":"text","text":"${cutText === "" ? line.slice(String.raw`\n`.length) : cutText + line}"}`);
  }
  return [write(`"content":[${items.join(",")}]`, ...rest), bare(flags)];
}

/**
 * Takes the items of a result in their order, as long as they fit. A text that does not fit is cut, and ends the content. Other items that
 * do not fit are left out.
 *
 * @param roomBytes the room for items, with a comma each.
 * @returns `cutText` as it is spelled in the JSON; empty if no text is cut.
 */
function limitContent(text: string, content: Span | undefined, roomBytes: number) {
  const items: string[] = [];
  let cutText = "";
  let leftBytes = roomBytes;
  let skipped = 0;
  const visit = (start: number): number => {
    const item = readMembers(text, start, ["type", "text"]);
    const end = item?.end ?? skipValue(text, start);
    const bytes = end - start < leftBytes ? Buffer.byteLength(text.slice(start, end)) + 1 : Number.POSITIVE_INFINITY;
    if (bytes <= leftBytes) {
      items.push(text.slice(start, end));
      leftBytes -= bytes;
      return end;
    }
    skipped++;
    const [type, inner] = [item?.named.get("type"), item?.named.get("text")];
    const isText = isString(text, inner) && isString(text, type) && decodeString(text, type.start, type.end) === "text";
    if (!isText) return skipped < MAX_SKIPPED_ITEMS ? end : STOP;
    if (leftBytes > LEAST_TEXT_BYTES) cutText = cutString(text, inner, leftBytes - 1);
    leftBytes = 0;
    return STOP;
  };
  if (content !== undefined) walkElements(text, content.start, visit);
  return { items, cutText, leftBytes, isWhole: skipped === 0 };
}

/**
 * Finds the members of an object with these names, of which the last one counts if a name is repeated.
 *
 * @param roomBytes the room for the texts of other members, with a comma each.
 * @returns undefined if the value is not an object, or has too many members to be read.
 */
function readMembers(text: string, start: number | undefined, names: readonly string[], roomBytes = 0) {
  if (start === undefined || text.charCodeAt(start) !== Code.openBrace) return undefined;
  const named = new Map<string, Span>();
  const others: string[] = [];
  let [leftBytes, count] = [roomBytes, 0];
  const end = walkMembers(text, start, (keyStart, keyEnd, valueStart) => {
    if (++count > MAX_MEMBERS) return STOP;
    const name = decodeString(text, keyStart, keyEnd);
    const valueEnd = skipValue(text, valueStart);
    if (names.includes(name)) named.set(name, { start: valueStart, end: valueEnd });
    else if (valueEnd - keyStart < leftBytes) {
      const member = text.slice(keyStart, valueEnd);
      const bytes = Buffer.byteLength(member) + 1;
      if (bytes <= leftBytes) {
        leftBytes -= bytes;
        others.push(member);
      }
    }
    return valueEnd;
  });
  return count > MAX_MEMBERS ? undefined : { named, others, end: end + 1 };
}

/** The last line of a cut text, as it is spelled in JSON. */
function lastLine(omittedBytes: number, bytes: number): string {
  return String.raw`\n[truncated: ${omittedBytes} of ${bytes} bytes omitted; ask for less at a time]`;
}

/** An item of the sidecar's own. */
function textItem(text: string): string {
  return `{"type":"text","text":${JSON.stringify(text)}}`;
}

function isString(text: string, span: Span | undefined): span is Span {
  return span !== undefined && text.charCodeAt(span.start) === Code.quote;
}

/** A character of a JSON string as it is spelled: two escapes that are a surrogate pair, one escape, or one UTF-16 unit. */
const CHARACTER = /\\u[dD][89abAB][^]{2}\\u[dD][c-fC-F][^]{2}|\\u[^]{4}|\\?[^]/y;
/** More than the length of a character. */
const LOOK_BEHIND = 16;
const encoder = new TextEncoder();

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
  let index = Math.max(from, cut - LOOK_BEHIND);
  // A backslash before the unit at this index may escape it.
  let backslashes = 0;
  while (index - backslashes > from && text.charCodeAt(index - backslashes - 1) === Code.backslash) backslashes++;
  index += backslashes % 2;
  for (;;) {
    CHARACTER.lastIndex = index;
    if (!CHARACTER.test(text) || CHARACTER.lastIndex > cut) return text.slice(from, index);
    index = CHARACTER.lastIndex;
  }
}

/** An error without some members of its data. `details` still decides about the HTTP status and its headers. */
class ShortenedError extends SidecarError {
  readonly #data: ErrorData | undefined;

  constructor({ code, details }: SidecarError, message: string, data?: ErrorData) {
    super(code, message, details);
    this.#data = data;
  }

  override get data(): ErrorData | undefined {
    return this.#data;
  }
}

/**
 * Shortens an error of the sidecar, so that its JSON-RPC response has at most `maxBytes` bytes. First it loses the server's stderr, then all
 * data but the facts about a retry. Then its code becomes the message.
 *
 * @returns the JSON text of an error without id if only that one fits.
 */
export function limitFailure(error: SidecarError, idText: string, maxBytes: number): SidecarError | string {
  const bytesOf = ({ message, data }: SidecarError): number =>
    Buffer.byteLength(`{"jsonrpc":"2.0","id":${idText},"error":${JSON.stringify({ code: -32_000, message, data })}}`);
  if (bytesOf(error) <= maxBytes) return error;
  const { code, message, details } = error;
  const facts: ErrorData = { code, sent: details.sent, retrySafe: details.retrySafe };
  const { stderrTail: _, ...withoutTail } = error.data ?? facts;
  const shortest = new ShortenedError(error, code);
  const shorter = [
    new ShortenedError(error, message, withoutTail),
    new ShortenedError(error, message, facts),
    new ShortenedError(error, code, facts),
    shortest,
  ];
  return shorter.find((each) => bytesOf(each) <= maxBytes) ?? (bytesOf(shortest) < NO_ROOM.length ? shortest : NO_ROOM);
}

/** The size of an event without its message: `id: …`, `event: message`, `data: ` and the line ends. The first event of a stream has no message. */
const EVENT_BYTES = 64;
const COMMENT_BYTES = ": keep-alive\n\n".length;
/** The part of the body that any messages may take before the response. */
const AHEAD_PART = 1 / 2;
/** The part of the body up to which server requests are still sent, because the response may depend on them. */
const SERVER_REQUESTS_PART = 3 / 4;

/** A reply whose whole HTTP body stays within MAX_RESULT_BYTES. The response gets the room that earlier messages have left. */
export class LimitedReply extends RewrittenReply {
  readonly #context: Context;
  readonly #maxBytes: number;
  #bytesAhead = 0;
  #isStream = false;

  constructor(context: Context, inner: Reply, maxBytes: number) {
    super(inner, (body) => {
      const shortened = limitBody(body, this.idText, this.#roomBytes());
      if (shortened !== undefined) context.counters.policy.truncatedResults++;
      return shortened ?? body;
    });
    this.#context = context;
    this.#maxBytes = maxBytes;
  }

  /** @returns false also for a message that would leave too little room for the response. */
  override emit(body: string): boolean {
    if (this.sharedBy === 0) return this.inner.emit(body);
    const bytesAhead = this.#bytesAhead + Buffer.byteLength(body) + EVENT_BYTES;
    const part = (bytesAhead * this.sharedBy) / this.#maxBytes;
    if (part > AHEAD_PART && (part > SERVER_REQUESTS_PART || findMembers(body, 0, ["id"]).spans[0] === undefined)) return false;
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

  /** The most bytes of the response itself. */
  #roomBytes(): number {
    const { sharedBy, acceptedAtMs, inner } = this;
    const maxBytes = this.#maxBytes - (inner.addedBytes ?? 0);
    // In an endless stream, each response has the whole limit for itself.
    if (sharedBy === 0) return maxBytes - EVENT_BYTES;
    if (sharedBy === 1 && !this.#isStream) return maxBytes;
    // Another response of a batch may have begun the stream. A response as an array takes less.
    const { config, nowMs } = this.#context;
    const commentsBytes = COMMENT_BYTES * (1 + Math.floor((nowMs() - acceptedAtMs) / config.keepAliveMs));
    // The first event of a stream has no message, and belongs to all responses.
    return Math.floor((maxBytes - EVENT_BYTES) / sharedBy) - EVENT_BYTES - this.#bytesAhead - commentsBytes;
  }
}
