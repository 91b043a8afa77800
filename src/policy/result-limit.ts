import { applyEdits, setMembers } from "../json/edit.ts";
import { findMembers, textOf } from "../json/find.ts";
import { Code, detached, walk } from "../json/text.ts";

/** For the envelope without the id, names of members, and the notes about omissions. */
const FRAME_BYTES = 256;
/** For `isError` and `resultType`, and as much for `_meta`. */
const OTHERS_PART = 1 / 8;
const MAX_CODE_BYTES = 32;
/** A text is not cut shorter. */
const LEAST_TEXT_BYTES = 48;
/** A server may send ten million items that do not fit. */
const MAX_DROPPED_ITEMS = 1000;
/** With these, a client gets the result of a task later. */
const TASK_NAMES = ["taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "ttlMs", "pollInterval", "pollIntervalMs"];
const NOT_A_RESULT = '"content":[{"type":"text","text":"[Response too large and not a tool result; content omitted]"}],"isError":true';

/**
 * At most 1 kB longer than `maxBytes` bytes of UTF-8 and the id. It stays a valid response of the same kind (decision 0012).
 *
 * @returns undefined if the response is short enough.
 */
export function limitResult(text: string, idText: string, maxBytes: number): string | undefined {
  // A UTF-16 unit takes at most three bytes.
  if (text.length * 3 <= maxBytes) return undefined;
  const bytes = Buffer.byteLength(text);
  if (bytes - Buffer.byteLength(idText) <= maxBytes) return undefined;
  const [result, error] = findMembers(text, 0, ["result", "error"]).spans.map((span) => textOf(text, span));
  const short = error === undefined ? shortResult(result, bytes, maxBytes) : shortError(error, bytes, maxBytes);
  return detached(`{"jsonrpc":"2.0","id":${idText},${short}}`, text);
}

function shortError(error: string, bytes: number, maxBytes: number): string {
  const [code, message] = membersOf(error, ["code", "message"]);
  let shown = "[truncated]";
  if (message?.startsWith('"') === true) {
    shown = cutString(message, maxBytes - FRAME_BYTES);
    if (shown.length < message.length - 2) shown += String.raw`\n${note(bytes - Buffer.byteLength(shown), bytes)}`;
  }
  const data = `{"truncated":true,"originalBytes":${bytes}}`;
  return `"error":{"code":${fits(code, MAX_CODE_BYTES) ? code : "-32603"},"message":"${shown}","data":${data}}`;
}

function shortResult(result: string | undefined, bytes: number, maxBytes: number): string {
  const [content, structured, meta = "", task] = membersOf(result, ["content", "structuredContent", "_meta", "task"]);
  const othersBytes = maxBytes * OTHERS_PART;
  const kept = meta.startsWith("{") && fits(meta, othersBytes) ? meta : "{}";
  const marks = [["truncated", "true"] as const, ["originalBytes", String(bytes)] as const];
  const end = `"_meta":${applyEdits(kept, setMembers(kept, 0, marks))}}`;

  if (content === undefined ? structured === undefined : !content.startsWith("[")) {
    const typeText = listMembers(result, ["resultType"], othersBytes);
    if (task?.startsWith("{") === true)
      return `"result":{"task":{${listMembers(task, TASK_NAMES, maxBytes / 2).slice(0, -1)}},${typeText}${end}`;
    // In 2026-07-28, the result itself is the task.
    if (typeText === '"resultType":"task",') return `"result":{${typeText}${listMembers(result, TASK_NAMES, maxBytes / 2)}${end}`;
    return `"result":{${NOT_A_RESULT},${typeText && '"resultType":"complete",'}${end}`;
  }
  const rest = listMembers(result, ["isError", "resultType"], othersBytes) + end;
  const { items, cutText } = shortContent(content, maxBytes - FRAME_BYTES - Buffer.byteLength(rest));
  const line = note(bytes - Buffer.byteLength(items.join(",")) - Buffer.byteLength(cutText) - Buffer.byteLength(rest), bytes);
  items.push(`{"type":"text","text":"${cutText === "" ? line : String.raw`${cutText}\n${line}`}"}`);
  return `"result":{"content":[${items.join(",")}],${rest}`;
}

/** The first text that does not fit is cut, and ends the content. */
function shortContent(content = "[]", roomBytes: number) {
  const items: string[] = [];
  let cutText = "";
  let leftBytes = roomBytes;
  let dropped = 0;
  walk(content, 0, (start, end) => {
    const item = content.slice(start, end);
    // A comma follows.
    if (fits(item, leftBytes - 1)) {
      items.push(item);
      leftBytes -= Buffer.byteLength(item) + 1;
      return undefined;
    }
    const [type, inner] = membersOf(item, ["type", "text"]);
    if (type !== '"text"' || inner?.startsWith('"') !== true) return ++dropped < MAX_DROPPED_ITEMS ? undefined : false;
    if (leftBytes > LEAST_TEXT_BYTES) cutText = cutString(inner, leftBytes);
    return false;
  });
  return { items, cutText };
}

/** Only an object has members. */
function membersOf(text: string | undefined, names: readonly string[]): readonly (string | undefined)[] {
  return text?.startsWith("{") === true ? findMembers(text, 0, names).spans.map((span) => textOf(text, span)) : [];
}

/** A comma after each, without those for which there is no room. */
function listMembers(text: string | undefined, names: readonly string[], roomBytes: number): string {
  let list = "";
  for (const [index, member] of membersOf(text, names).entries())
    if (fits(member, roomBytes - Buffer.byteLength(list))) list += `"${names[index]}":${member},`;
  return list;
}

function fits(text: string | undefined, maxBytes: number): text is string {
  return text !== undefined && text.length <= maxBytes && Buffer.byteLength(text) <= maxBytes;
}

function note(omittedBytes: number, bytes: number): string {
  return `[truncated: ${omittedBytes} of ${bytes} bytes omitted; ask for less at a time]`;
}

/** As it is spelled: two escapes that are a surrogate pair, one escape, or one UTF-16 unit. */
const CHARACTER = /\\u[dD][89abAB][^]{2}\\u[dD][c-fC-F][^]{2}|\\u[^]{4}|\\?[^]/y;
/** More than the length of a character. */
const LOOK_BEHIND = 16;
const encoder = new TextEncoder();

/** As it is spelled, without quotes. Escapes and surrogate pairs stay whole. */
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
