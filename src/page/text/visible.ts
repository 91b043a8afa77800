/**
 * Characters that are invisible or change the order of others: controls, format characters (bidi, zero-width, tags), lone surrogates, separators
 * of lines, and fillers that look like a space.
 */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u034f\u115f\u1160\u2800\u3164\uffa0]/gu;

/** Returns a text for one line in which each invisible character is an escape, such as `\u202e`. */
export function visibleLine(text: string): string {
  return text.replace(INVISIBLE, escaped);
}

/** Like `visibleLine`, but keeps line feeds and tabs. */
export function visibleLines(text: string): string {
  return text
    .replaceAll("\r\n", "\n")
    .replace(INVISIBLE, (character) => (character === "\n" || character === "\t" ? character : escaped(character)));
}

/** Returns the beginning of a text, without half a character at its end. */
export function cut(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  const end = /[\ud800-\udbff]/.test(text.charAt(maxLength - 1)) ? maxLength - 1 : maxLength;
  return text.slice(0, end);
}

function escaped(character: string): string {
  if (character === "\n") return "\\n";
  if (character === "\t") return "\\t";
  const hex = (character.codePointAt(0) ?? 0).toString(16);
  return hex.length > 4 ? `\\u{${hex}}` : `\\u${hex.padStart(4, "0")}`;
}
