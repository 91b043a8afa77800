/** Characters that are not seen, that change the direction, or that end a line. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;
/** An app can send megabytes where a line is shown. */
const MAX_CHARACTERS = 10_000;
const UNSAFE_OR_SPACE = new RegExp(`(?:${UNSAFE.source}|\\s)+`, "gu");

/** Returns true if a person sees all of the text. */
export function isSafe(text: string): boolean {
  return !UNSAFE.test(text);
}

/** Returns text of an app as one safe line, which begins within its first 10,000 characters. */
export function cleanLine(text: string, maxLength: number): string {
  const line = text.slice(0, MAX_CHARACTERS).replaceAll(UNSAFE_OR_SPACE, " ").trim();
  return line.length > maxLength ? `${line.slice(0, maxLength - 1).toWellFormed()}…` : line;
}
