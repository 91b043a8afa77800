import { decodeString, type Span } from "../../json/strings.ts";
import { Code } from "../../json/tokens.ts";
import type { Part } from "./find.ts";

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
export function limitContent(text: string, items: readonly Part[], roomBytes: number): string[] {
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
export function shortenText(text: string, span: Span, maxBytes: number): string {
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
export function cutString(text: string, span: Span, maxBytes: number): string {
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
export function textItem(text: string): string {
  return `{"type":"text","text":${JSON.stringify(text)}}`;
}

/** The size in UTF-8. */
export function bytesOf(text: string, { start, end }: Span): number {
  return Buffer.byteLength(text.slice(start, end));
}

export function isString(text: string, part: Part | undefined): part is Part {
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
