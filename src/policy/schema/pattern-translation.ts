/** The pattern is no regular expression, or not one that can be matched in linear time. */
export class UnsupportedPatternError extends Error {
  override readonly name = "UnsupportedPatternError";
}

/** With which a pattern is valid. */
export type PatternFlags = "u" | "";

/** Counted repetitions are written out: `(a{1,100}){1,100}` would be 10,000 characters. */
const MAX_SIZE = 5000;
/** Without the flag `u`, each half of a surrogate pair is a character. RE2 knows none such, but then there are code points to spare. */
const HALVES = 0x100000;
const FIRST_HALF = 0xd800;
const LAST_HALF = 0xdfff;

/** What Annex B of ECMA-262 allows besides, without the flag `u`, is not taken; there, `\u{` and `\p{` are no more than the letters. */
const CODE = String.raw`\\x[\da-fA-F]{2}|\\u[\da-fA-F]{4}|\\c[a-zA-Z]|\\0(?!\d)`;
const PAIR = String.raw`\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}`;
const SYNTAX = {
  u: syntaxWith(String.raw`${PAIR}|${CODE}|\\u\{[\da-fA-F]+\}|\\[pP]\{[^}]*\}|\\[^\dk]`, "gsu"),
  "": syntaxWith(String.raw`${CODE}|\\[^\dkc]`, "gs"),
};

const CONTROLS = new Map(Array.from("btnvfr", (letter, index) => [`\\${letter}`, index + 8])).set("\\0", 0);
const NOT_LINE_END = String.raw`[^\n\r\x{2028}\x{2029}]`;
/** The `\s` of RE2 is ASCII. Both as ranges, since a class may hold them beside others. */
const SPACE = String.raw`\x09-\x0d\x20\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`;
const NO_SPACE = String.raw`\x00-\x08\x0e-\x1f\x21-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}`;

function syntaxWith(escape: string, flags: string): { readonly tokens: RegExp; readonly ranges: RegExp } {
  const open = String.raw`\((?:\?:|\?<(?![=!])[^>]*>|(?!\?))`;
  const count = String.raw`[*+?]\??|\{\d+(?:,\d*)?\}\??`;
  const set = String.raw`\[\^?(?:${escape}|[^\]\\])*\]`;
  return {
    tokens: new RegExp(`(?<open>${open})|(?<count>${count})|(?<set>${set})|(?<atom>${escape}|.)`, flags),
    ranges: new RegExp(`(${escape}|.)(?:-(${escape}|.))?`, flags),
  };
}

/**
 * Writes what the platform takes for a regular expression in the syntax of RE2. Groups capture nothing; characters are written as
 * numbers, so that none means something else there.
 *
 * @returns it, and about how many characters it has with its repetitions written out
 * @throws UnsupportedPatternError for look-around, back references, modifiers, and too many repetitions
 */
export function translatePattern(source: string, flags: PatternFlags): { readonly translated: string; readonly size: number } {
  let translated = "";
  /** Of the groups that are open, the innermost last. */
  const sizes = [0];
  let sizeOfTerm = 0;
  const grow = (by: number): void => {
    const size = (sizes.pop() ?? 0) + by;
    if (size > MAX_SIZE) throw new UnsupportedPatternError("its repetitions are too many");
    sizes.push(size);
  };
  for (const { groups } of source.matchAll(SYNTAX[flags].tokens)) {
    const { open, count, set, atom = "" } = groups ?? {};
    if (open !== undefined) {
      sizes.push(0);
      translated += "(?:";
    } else if (count !== undefined) {
      const times = Math.max(1, ...(count.match(/\d+/g) ?? []).map(Number));
      grow(sizeOfTerm * (times - 1));
      translated += count;
    } else {
      // What is empty takes an instruction as well.
      sizeOfTerm = atom === ")" ? 1 + (sizes.pop() ?? 0) : 1;
      grow(sizeOfTerm);
      translated += set === undefined ? termOf(atom, flags) : classOf(set, flags);
    }
  }
  return { translated, size: sizes[0] ?? 0 };
}

/** What a translation without the flag `u` has to be given in place of a text. */
export function withoutPairs(text: string): string {
  return text.replaceAll(/[\ud800-\udfff]/g, (half) => String.fromCodePoint(HALVES + half.charCodeAt(0)));
}

function termOf(atom: string, flags: PatternFlags): string {
  if ([")", "|", "^", "\\b", "\\B"].includes(atom)) return atom;
  if (atom === "$") return "\\z";
  if (atom === ".") return NOT_LINE_END;
  if (atom === "(") throw new UnsupportedPatternError("look-around and modifiers cannot be matched in linear time");
  if (atom === "\\") throw new UnsupportedPatternError("back references and octal escapes cannot be matched in linear time");
  return `[${memberOf(atom, flags)}]`;
}

function classOf(set: string, flags: PatternFlags): string {
  const isNegated = set.startsWith("[^");
  const members = set.slice(isNegated ? 2 : 1, -1).replaceAll(SYNTAX[flags].ranges, (_range, from: string, to: string | undefined) => {
    if (to === undefined) return memberOf(from, flags);
    const low = codePointOf(from, flags);
    const high = codePointOf(to, flags);
    // Without the flag `u`, `[\w-.]` has a hyphen.
    if (low === undefined || high === undefined) return [from, "-", to].map((member) => memberOf(member, flags)).join("");
    return rangeOf(low, high, flags);
  });
  if (members === "") return isNegated ? "[\\x00-\\x{10ffff}]" : "[^\\x00-\\x{10ffff}]";
  return `[${isNegated ? "^" : ""}${members}]`;
}

/** What a character or an escape stands for, as a part of a class. */
function memberOf(atom: string, flags: PatternFlags): string {
  const code = codePointOf(atom, flags);
  if (code !== undefined) return rangeOf(code, code, flags);
  if (atom === "\\s") return SPACE;
  if (atom === "\\S") return NO_SPACE;
  // RE2 knows properties by one name only.
  return atom.replace(/(?<=\{)(?:Script|sc|General_Category|gc)=/, "");
}

/** @returns undefined for what stands for more than one character */
function codePointOf(atom: string, flags: PatternFlags): number | undefined {
  if (!atom.startsWith("\\")) return atom.codePointAt(0);
  if (/^\\[dDwWsS]$/.test(atom) || (flags === "u" && /^\\p/i.test(atom))) return undefined;
  if (/^\\c./.test(atom)) return atom.charCodeAt(2) % 32;
  if (/^\\[xu]./.test(atom)) {
    const codes = (atom.match(/[\da-f]+/gi) ?? []).map((digits) => Number.parseInt(digits, 16));
    return String.fromCodePoint(...codes).codePointAt(0);
  }
  return CONTROLS.get(atom) ?? atom.codePointAt(1);
}

function rangeOf(low: number, high: number, flags: PatternFlags): string {
  const range = (from: number, to: number): string => `\\x{${from.toString(16)}}-\\x{${to.toString(16)}}`;
  const firstHalf = Math.max(low, FIRST_HALF);
  const lastHalf = Math.min(high, LAST_HALF);
  if (flags === "u" || firstHalf > lastHalf) return range(low, high);
  return range(low, high) + range(HALVES + firstHalf, HALVES + lastHalf);
}
