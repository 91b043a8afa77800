import { applyEdits, setMembers } from "../json/edit.ts";
import { findMembers, textOf } from "../json/read.ts";
import { Code, detached, type Span, walk } from "../json/text.ts";

/** Room for the envelope without the id, names of members, and the notes about omissions. */
const FRAME_BYTES = 256;
/** The part for `isError` and `resultType`, and as much for `_meta`. */
const OTHERS_PART = 1 / 8;
const MAX_CODE_BYTES = 32;
/** A text is not cut shorter. */
const LEAST_TEXT_BYTES = 48;
/** A server may send ten million items that do not fit. */
const MAX_DROPPED_ITEMS = 1000;
/** A client needs these to get the result of a task later. */
const TASK_NAMES = ["taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "ttlMs", "pollInterval", "pollIntervalMs"];
const NOT_A_RESULT = '"content":[{"type":"text","text":"[Response too large and not a tool result; content omitted]"}],"isError":true';

/**
 * Returns a valid response of the same kind, at most 1 kB longer than `maxBytes` bytes of UTF-8 and the id (decision 0012).
 *
 * @returns undefined if it is short enough.
 */
export function limitResult(text: string, idText: string, maxBytes: number): string | undefined {
  // A UTF-16 unit takes at most three bytes.
  if (text.length * 3 <= maxBytes) return undefined;
  const bytes = Buffer.byteLength(text);
  if (bytes - Buffer.byteLength(idText) <= maxBytes) return undefined;
  const [result, error] = findMembers(text, 0, ["result", "error"]).spans;
  const short =
    error === undefined ? shortResult(text, result?.start ?? -1, bytes, maxBytes) : shortError(text, error.start, bytes, maxBytes);
  return detached(`{"jsonrpc":"2.0","id":${idText},${short}}`, text);
}

function shortError(text: string, start: number, bytes: number, maxBytes: number): string {
  const { spans } = findMembers(text, start, ["code", "message"]);
  const [code, message] = spans.map((span) => textOf(text, span));
  let shown = "[truncated]";
  if (message?.startsWith('"') === true) {
    shown = cutString(message, maxBytes - FRAME_BYTES);
    if (shown.length < message.length - 2) shown += String.raw`\n${note(bytes - Buffer.byteLength(shown), bytes)}`;
  }
  const data = `{"truncated":true,"originalBytes":${bytes}}`;
  return `"error":{"code":${fits(code, MAX_CODE_BYTES) ? code : "-32603"},"message":"${shown}","data":${data}}`;
}

function shortResult(text: string, start: number, bytes: number, maxBytes: number): string {
  const { spans } = findMembers(text, start, ["content", "structuredContent", "_meta", "task", "isError", "resultType"]);
  const [content, structured, meta, task, isError, resultType] = spans;
  const othersBytes = maxBytes * OTHERS_PART;
  const metaText = textOf(text, meta);
  const keepsMeta = metaText?.startsWith("{") === true && fits(metaText, othersBytes);
  const end = `"_meta":${keepsMeta ? withMarks(metaText, bytes) : `{"truncated":true,"originalBytes":${bytes}}`}}`;

  if (content === undefined ? structured === undefined : text[content.start] !== "[") {
    const typeText = listMembers(text, ["resultType"], [resultType], othersBytes);
    const isTask = task !== undefined && text[task.start] === "{";
    // In 2026-07-28, the result itself is the task.
    if (isTask || typeText === '"resultType":"task",') {
      const members = listMembers(text, TASK_NAMES, findMembers(text, isTask ? task.start : start, TASK_NAMES).spans, maxBytes / 2);
      return `"result":{${isTask ? `"task":{${members.slice(0, -1)}},` : members}${typeText}${end}`;
    }
    return `"result":{${NOT_A_RESULT},${typeText && '"resultType":"complete",'}${end}`;
  }
  const rest = listMembers(text, ["isError", "resultType"], [isError, resultType], othersBytes) + end;
  const { items, cutText } = shortContent(text, content?.start ?? -1, maxBytes - FRAME_BYTES - Buffer.byteLength(rest));
  const line = note(bytes - Buffer.byteLength(items.join(",")) - Buffer.byteLength(cutText) - Buffer.byteLength(rest), bytes);
  items.push(`{"type":"text","text":"${cutText === "" ? line : String.raw`${cutText}\n${line}`}"}`);
  return `"result":{"content":[${items.join(",")}],${rest}`;
}

/** The first text that does not fit is cut, and ends the content. */
function shortContent(text: string, contentStart: number, roomBytes: number) {
  const items: string[] = [];
  let cutText = "";
  let leftBytes = roomBytes;
  let dropped = 0;
  walk(text, contentStart, (start, end) => {
    const item = text.slice(start, end);
    // A comma follows.
    if (fits(item, leftBytes - 1)) {
      items.push(item);
      leftBytes -= Buffer.byteLength(item) + 1;
      return undefined;
    }
    const [type, inner] = findMembers(text, start, ["type", "text"]).spans;
    if (textOf(text, type) !== '"text"' || inner === undefined || text[inner.start] !== '"')
      return ++dropped < MAX_DROPPED_ITEMS ? undefined : false;
    if (leftBytes > LEAST_TEXT_BYTES) cutText = cutString(text.slice(inner.start, inner.end), leftBytes);
    return false;
  });
  return { items, cutText };
}

function withMarks(meta: string, bytes: number): string {
  const marks = [["truncated", "true"] as const, ["originalBytes", String(bytes)] as const];
  return applyEdits(meta, setMembers(meta, 0, marks));
}

/** Lists the members that fit, with a comma after each. */
function listMembers(text: string, names: readonly string[], spans: readonly (Span | undefined)[], roomBytes: number): string {
  let list = "";
  for (const [index, name] of names.entries()) {
    const member = textOf(text, spans[index]);
    if (fits(member, roomBytes - Buffer.byteLength(list))) list += `"${name}":${member},`;
  }
  return list;
}

function fits(text: string | undefined, maxBytes: number): text is string {
  return text !== undefined && text.length <= maxBytes && Buffer.byteLength(text) <= maxBytes;
}

function note(omittedBytes: number, bytes: number): string {
  return `[truncated: ${omittedBytes} of ${bytes} bytes omitted; ask for less at a time]`;
}

/** A character as it is spelled: two escapes that are a surrogate pair, one escape, or one UTF-16 unit. */
const CHARACTER = /\\u[dD][89abAB][^]{2}\\u[dD][c-fC-F][^]{2}|\\u[^]{4}|\\?[^]/y;
/** More than the length of a character. */
const LOOK_BEHIND = 16;
const encoder = new TextEncoder();

/** Returns the beginning as it is spelled, without quotes. Escapes and surrogate pairs stay whole. */
function cutString(string: string, maxBytes: number): string {
  if (maxBytes <= 0) return "";
  // A unit has at least one byte. The encoder splits no surrogate pair.
  const longest = string.slice(1, Math.min(string.length - 1, 1 + maxBytes));
  const cut = 1 + encoder.encodeInto(longest, new Uint8Array(maxBytes)).read;
  if (cut >= string.length - 1) return longest;
  let index = Math.max(1, cut - LOOK_BEHIND);
  // A backslash before the unit at this index may escape it.
  let backslashes = 0;
  while (string.charCodeAt(index - backslashes - 1) === Code.backslash) backslashes++;
  index += backslashes % 2;
  for (;;) {
    CHARACTER.lastIndex = index;
    if (!CHARACTER.test(string) || CHARACTER.lastIndex > cut) return string.slice(1, index);
    index = CHARACTER.lastIndex;
  }
}
