import { beginning, escapeInvisible } from "../../json/text.ts";

/** Returns a text for one line in which each invisible character is an escape, such as `\u202e`. */
export function visibleLine(text: string): string {
  return escapeInvisible(text);
}

/** Like `visibleLine`, but keeps line feeds and tabs. */
export function visibleLines(text: string): string {
  return text
    .replaceAll("\r\n", "\n")
    .split(/([\n\t])/)
    .map((part, index) => (index % 2 === 0 ? escapeInvisible(part) : part))
    .join("");
}

/** Returns the beginning of a text, without half a character at its end. */
export function cut(text: string, maxLength: number): string {
  return text.length <= maxLength ? text : beginning(text, maxLength);
}
