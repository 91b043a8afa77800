import { applyEdits, setMembers } from "../json/edit.ts";
import { findMembers } from "../json/find.ts";
import { Code, detached, skipValue, type Span, STOP, walkElements } from "../json/text.ts";

/** Room for the envelope without the id, the names of members, and the notes about what is left out. */
const FRAME_BYTES = 256;
/** The part of the limit for `isError` and `resultType`, and as much for `_meta`. */
const OTHERS_PART = 1 / 8;
const MAX_CODE_BYTES = 32;
/** A text is not cut shorter. */
const LEAST_TEXT_BYTES = 48;
/** After as many items that do not fit and are no texts, the rest is left out. A server may send ten million of them. */
const MAX_DROPPED_ITEMS = 1000;
/** The members with which a client gets the result of a task later. The message for people, which can be long, is left out. */
const TASK_NAMES = ["taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "ttlMs", "pollInterval", "pollIntervalMs"];
const NOT_A_RESULT = '"content":[{"type":"text","text":"[Response too large and not a tool result; content omitted]"}],"isError":true';

/**
 * Shortens the response to a tool call to about `maxBytes` bytes of UTF-8 and its id, at most 1 kB more. It stays a valid response of the
 * same kind. docs/decisions/0012 has the rule. What is kept is copied as it is spelled.
 *
 * @param text of a JSON-RPC response.
 * @param idText the JSON text of its id.
 * @returns undefined if the response is short enough.
 */
export function limitResult(text: string, idText: string, maxBytes: number): string | undefined {
  // A UTF-16 unit takes at most three bytes.
  if (text.length * 3 <= maxBytes) return undefined;
  const bytes = Buffer.byteLength(text);
  if (bytes - Buffer.byteLength(idText) <= maxBytes) return undefined;
  const [result, error] = findMembers(text, 0, ["result", "error"]).spans;
  const short = error === undefined ? shortResult(text, result, bytes, maxBytes) : shortError(text, error, bytes, maxBytes);
  return detached(`{"jsonrpc":"2.0","id":${idText},${short}}`, text);
}

function shortError(text: string, error: Span, bytes: number, maxBytes: number): string {
  const [code, message] = membersOf(text, error, ["code", "message"]);
  const codeText = fits(text, code, MAX_CODE_BYTES) ? text.slice(code.start, code.end) : "-32603";
  let shown = "[truncated]";
  if (isString(text, message)) {
    shown = cutString(text, message, maxBytes - FRAME_BYTES);
    if (shown.length < message.end - message.start - 2) shown += String.raw`\n${note(bytes - Buffer.byteLength(shown), bytes)}`;
  }
  return `"error":{"code":${codeText},"message":"${shown}","data":{"truncated":true,"originalBytes":${bytes}}}`;
}

function shortResult(text: string, result: Span | undefined, bytes: number, maxBytes: number): string {
  const names = ["content", "structuredContent", "isError", "resultType", "_meta", "task"];
  const [content, structured, isError, resultType, meta, task] = membersOf(text, result, names);
  const othersBytes = maxBytes * OTHERS_PART;
  const metaText = startsWith(text, meta, Code.openBrace) && fits(text, meta, othersBytes) ? text.slice(meta.start, meta.end) : "{}";
  const marks = [["truncated", "true"] as const, ["originalBytes", String(bytes)] as const];
  const end = `"_meta":${applyEdits(metaText, setMembers(metaText, 0, marks))}}`;

  if (content === undefined ? structured === undefined : !startsWith(text, content, Code.openBracket)) {
    const taskText = (span: Span | undefined): string => listMembers(text, TASK_NAMES, membersOf(text, span, TASK_NAMES), maxBytes / 2);
    const typeText = listMembers(text, ["resultType"], [resultType], othersBytes);
    if (startsWith(text, task, Code.openBrace)) return `"result":{"task":{${taskText(task).slice(0, -1)}},${typeText}${end}`;
    // In 2026-07-28, the result itself is the task.
    if (typeText === '"resultType":"task",') return `"result":{${typeText}${taskText(result)}${end}`;
    return `"result":{${NOT_A_RESULT},${typeText && '"resultType":"complete",'}${end}`;
  }
  const flags = listMembers(text, ["isError", "resultType"], [isError, resultType], othersBytes);
  const { items, cutText, leftBytes } = shortContent(text, content, maxBytes - FRAME_BYTES - Buffer.byteLength(flags + end));
  const rest = fits(text, structured, leftBytes)
    ? `"structuredContent":${text.slice(structured.start, structured.end)},${flags}${end}`
    : flags + end;
  const line = note(bytes - Buffer.byteLength(items.join(",")) - Buffer.byteLength(cutText) - Buffer.byteLength(rest), bytes);
  items.push(`{"type":"text","text":"${cutText === "" ? line : String.raw`${cutText}\n${line}`}"}`);
  return `"result":{"content":[${items.join(",")}],${rest}`;
}

/** Takes the items that fit, in their order. The first text that does not fit is cut, and ends the content. */
function shortContent(text: string, content: Span | undefined, roomBytes: number) {
  const items: string[] = [];
  let cutText = "";
  let leftBytes = roomBytes;
  let dropped = 0;
  const visit = (start: number): number => {
    const end = skipValue(text, start);
    const item = { start, end };
    // A comma follows.
    if (fits(text, item, leftBytes - 1)) {
      const itemText = text.slice(start, end);
      items.push(itemText);
      leftBytes -= Buffer.byteLength(itemText) + 1;
      return end;
    }
    const [type, inner] = membersOf(text, item, ["type", "text"]);
    const isText = type !== undefined && text.slice(type.start, type.end) === '"text"' && isString(text, inner);
    if (!isText) return ++dropped < MAX_DROPPED_ITEMS ? end : STOP;
    if (leftBytes > LEAST_TEXT_BYTES) cutText = cutString(text, inner, leftBytes);
    leftBytes = 0;
    return STOP;
  };
  if (content !== undefined) walkElements(text, content.start, visit);
  return { items, cutText, leftBytes };
}

/** Finds members of a value, in the order of the names. Only an object has members. */
function membersOf(text: string, value: Span | undefined, names: readonly string[]): readonly (Span | undefined)[] {
  return startsWith(text, value, Code.openBrace) ? findMembers(text, value.start, names).spans : [];
}

/** Returns the JSON text of the members, a comma after each, without those for which there is no room. */
function listMembers(text: string, names: readonly string[], spans: readonly (Span | undefined)[], roomBytes: number): string {
  let list = "";
  for (const [index, span] of spans.entries())
    if (fits(text, span, roomBytes - Buffer.byteLength(list))) list += `"${names[index]}":${text.slice(span.start, span.end)},`;
  return list;
}

/** True if the part is present and has at most so many bytes. A longer one is not copied. */
function fits(text: string, span: Span | undefined, maxBytes: number): span is Span {
  return span !== undefined && span.end - span.start <= maxBytes && Buffer.byteLength(text.slice(span.start, span.end)) <= maxBytes;
}

function startsWith(text: string, span: Span | undefined, code: number): span is Span {
  return span !== undefined && text.charCodeAt(span.start) === code;
}

function isString(text: string, span: Span | undefined): span is Span {
  return startsWith(text, span, Code.quote);
}

function note(omittedBytes: number, bytes: number): string {
  return `[truncated: ${omittedBytes} of ${bytes} bytes omitted; ask for less at a time]`;
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
