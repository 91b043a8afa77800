import { decodeString, type Span } from "../../json/strings.ts";

const BACKSLASH = 92;
const LETTER_U = 117;
/** `\uXXXX`. */
const LONG_ESCAPE = 6;
const HIGH_SURROGATE_ESCAPE = /^\\u[dD][89abAB]/;
const LOW_SURROGATE_ESCAPE = /^\\u[dD][c-fC-F]/;

/** How far around a cut is looked for what belongs together, in UTF-16 units: an emoji of a family, written in escapes. */
const LOOK_BEHIND = 96;
const LOOK_AHEAD = 48;
/** No more than so much in front of a cut is looked at, but for a run of backslashes: that is counted once. */
const REACH = LOOK_BEHIND + 4 * LONG_ESCAPE;

const encoder = new TextEncoder();
let segmenter: Intl.Segmenter | undefined;

/**
 * The longest beginning of a JSON string that has at most `maxBytes` bytes of UTF-8 and ends between two characters: escapes and
 * surrogate pairs stay whole, and so does what a reader sees as one character, such as a letter with its accents.
 *
 * @param span of the string in `text`, its quotes included.
 * @returns the beginning as it is spelled there, without quotes.
 */
export function cutJsonString(text: string, span: Span, maxBytes: number): string {
  const [from, to] = [span.start + 1, span.end - 1];
  if (maxBytes <= 0) return "";
  // No unit has less than a byte.
  const longest = text.slice(from, Math.min(to, from + maxBytes));
  const { read } = encoder.encodeInto(longest, new Uint8Array(maxBytes));
  if (from + read >= to) return longest;
  const anchor = plainPosition(text, from, from + read - REACH);
  const cut = characterStart(text, anchor, from + read);
  return text.slice(from, graphemeStart(text, anchor, to, cut));
}

/** A position at `near`, or just behind it, that no backslash in front of it escapes. */
function plainPosition(text: string, from: number, near: number): number {
  if (near <= from) return from;
  return startsEscape(text, from, near) ? near : near + 1;
}

/** The last place up to `cut` that is neither within an escape nor between two that are a surrogate pair; one in UTF-8 is never cut. */
function characterStart(text: string, from: number, cut: number): number {
  const safe = escapeStart(text, from, cut);
  const before = safe - LONG_ESCAPE;
  const isHalf =
    before >= from &&
    HIGH_SURROGATE_ESCAPE.test(text.slice(before, safe)) &&
    startsEscape(text, from, before) &&
    LOW_SURROGATE_ESCAPE.test(text.slice(safe, safe + LONG_ESCAPE));
  return isHalf ? before : safe;
}

function escapeStart(text: string, from: number, cut: number): number {
  for (let index = cut - 1; index >= from && index > cut - LONG_ESCAPE; index--) {
    if (text.charCodeAt(index) !== BACKSLASH) continue;
    return startsEscape(text, from, index) && index + escapeLength(text, index) > cut ? index : cut;
  }
  return cut;
}

/** A backslash behind another may be what that one escapes. */
function startsEscape(text: string, from: number, index: number): boolean {
  let first = index;
  while (first > from && text.charCodeAt(first - 1) === BACKSLASH) first--;
  return (index - first) % 2 === 0;
}

function escapeLength(text: string, index: number): number {
  return text.charCodeAt(index + 1) === LETTER_U ? LONG_ESCAPE : 2;
}

/** The start of what a reader sees as one character, where `cut` is within such. */
function graphemeStart(text: string, from: number, to: number, cut: number): number {
  const next = text.charCodeAt(cut);
  if (next < 0x80 && next !== BACKSLASH) return cut;
  const start = characterStart(text, from, Math.max(from, cut - LOOK_BEHIND));
  const end = characterStart(text, from, Math.min(to, cut + LOOK_AHEAD));
  const starts: number[] = [];
  for (let index = start; index < end; index += text.charCodeAt(index) === BACKSLASH ? escapeLength(text, index) : 1) starts.push(index);
  const characters = decodeString(`"${text.slice(start, end)}"`, 0, end - start + 2);
  segmenter ??= new Intl.Segmenter("en");
  const segment = segmenter.segment(characters).containing(starts.indexOf(cut));
  // One that begins before all that was looked at is no character that anybody would miss.
  return segment === undefined || segment.index === 0 ? cut : (starts[segment.index] ?? cut);
}
