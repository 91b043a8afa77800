/** Enough to recognise a name or a method. In UTF-16 units. */
const NAME_LENGTH = 100;

/**
 * Characters that are invisible or that control a terminal: controls, direction marks, zero-width and tag characters, lone
 * surrogates. The selectors of emoji and text presentation are excluded, because ordinary texts have them.
 */
const INVISIBLE = /[[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]--[\uFE0E\uFE0F]]/gv;

/**
 * Escape sequences with their parameters (ECMA-48). None can begin inside another one, so the time is linear. `stripVTControlCharacters`
 * takes quadratic time, and a server may write megabytes.
 */
const ESCAPE_SEQUENCES =
  // oxlint-disable-next-line no-control-regex -- they are what it matches
  /(?:\u001B\[|\u009B)[0-?]*[ -/]*[@-~]|(?:\u001B[\]PX^_]|[\u0090\u0098\u009D-\u009F])[^\u0007\u001B\u0080-\u009F]*(?:\u0007|\u001B\\|\u009C)|\u001B[ -/]*[0-~]/g;

/** White space and controls, from a position on. */
// oxlint-disable-next-line no-control-regex -- they are what it matches
const WHITE_SPACE = /[\s\0-\u001A\u001C-\u001F\u007F\uFEFF]*/y;
const ESCAPE_SEQUENCE = new RegExp(ESCAPE_SEQUENCES.source, "y");

/** Returns the position of the first character from `start` on that a terminal would show. */
export function skipInvisible(text: string, start = 0): number {
  let index = start;
  for (;;) {
    WHITE_SPACE.lastIndex = index;
    if (WHITE_SPACE.test(text)) index = WHITE_SPACE.lastIndex;
    ESCAPE_SEQUENCE.lastIndex = index;
    if (!ESCAPE_SEQUENCE.test(text)) return index;
    index = ESCAPE_SEQUENCE.lastIndex;
  }
}

/** Shortens a text for people: to its first `maxLength` UTF-16 units and "…". */
export function shorten(text: string, maxLength = NAME_LENGTH): string {
  return text.length <= maxLength ? text : `${beginning(text, maxLength)}…`;
}

/** Returns at most the first `maxLength` UTF-16 units of a text, without half of a surrogate pair at the end. */
export function beginning(text: string, maxLength: number): string {
  return text.slice(0, isInsidePair(text, maxLength) ? maxLength - 1 : maxLength);
}

/** True if the UTF-16 units before and at `index` are the two halves of one character. */
export function isInsidePair(text: string, index: number): boolean {
  return (text.codePointAt(index - 1) ?? 0) > 0xffff;
}

/** Makes a text safe for a terminal, on one line. Escape sequences are removed; invisible characters become spaces. */
export function plainText(text: string): string {
  return text.replace(ESCAPE_SEQUENCES, "").replace(INVISIBLE, " ");
}

/** Replaces each invisible character with its JSON escape. */
export function escapeInvisible(text: string): string {
  // A peer may send millions of them, so no array is built for each.
  return text.replace(INVISIBLE, (character) =>
    character.length === 1 ? escapeUnit(character, 0) : escapeUnit(character, 0) + escapeUnit(character, 1),
  );
}

function escapeUnit(text: string, index: number): string {
  return String.raw`\u${text.charCodeAt(index).toString(16).padStart(4, "0")}`;
}

/** Returns the length of a text in UTF-8. A lone surrogate has three bytes, because it is sent as U+FFFD. */
export function utf8Length(text: string): number {
  let bytes = text.length;
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    if (unit > 0x7f) bytes++;
    // Both halves of a pair count here, and have four bytes together.
    if (unit > 0x7ff && !(isSurrogate(unit) && isPaired(text, index))) bytes++;
  }
  return bytes;
}

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdfff;
}

/** True if the surrogate at `index` and a unit beside it are the two halves of one character. */
function isPaired(text: string, index: number): boolean {
  return isInsidePair(text, index) || isInsidePair(text, index + 1);
}
