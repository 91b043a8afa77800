import type { Span } from "../../json/strings.ts";
import { Code } from "../../json/tokens.ts";

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

/** `near`, or the index behind it if a backslash escapes the unit at `near`. */
function unescapedIndex(text: string, from: number, near: number): number {
  if (near <= from) return from;
  let first = near;
  while (first > from && text.charCodeAt(first - 1) === Code.backslash) first--;
  return (near - first) % 2 === 0 ? near : near + 1;
}
