import { Code, isWhitespace, skipWhitespace } from "./tokens.ts";

/** Ends a walk at the member or element that is being visited. */
export const STOP = -1;

/**
 * Visits one member. The name reaches from `keyStart` to `keyEnd`, including its quotes.
 *
 * @returns the end of the value (see `skipValue`), or STOP.
 */
type VisitMember = (keyStart: number, keyEnd: number, valueStart: number) => number;

/**
 * Walks over the members of an object, in valid text.
 *
 * @param start position of the object, after optional white space.
 * @returns the position of the closing brace, or of the name at which the walk stopped.
 */
export function walkMembers(text: string, start: number, visit: VisitMember): number {
  let index = skipWhitespace(text, skipWhitespace(text, start) + 1);
  while (text.charCodeAt(index) === Code.quote) {
    const keyEnd = skipString(text, index);
    // White space, the colon and white space follow the name.
    const end = visit(index, keyEnd, skipWhitespace(text, skipWhitespace(text, keyEnd) + 1));
    if (end === STOP) return index;
    index = skipComma(text, end);
  }
  return index;
}

/** Walks over the elements of an array, as `walkMembers` does over members. */
export function walkElements(text: string, start: number, visit: (start: number) => number): number {
  let index = skipWhitespace(text, skipWhitespace(text, start) + 1);
  while (index < text.length && text.charCodeAt(index) !== Code.closeBracket) {
    const end = visit(index);
    if (end === STOP) return index;
    index = skipComma(text, end);
  }
  return index;
}

function skipComma(text: string, start: number): number {
  const index = skipWhitespace(text, start);
  return text.charCodeAt(index) === Code.comma ? skipWhitespace(text, index + 1) : index;
}

/** A loop is faster for the first characters of a string. For the rest, `indexOf` takes microseconds for a megabyte. */
const SHORT_RUN = 24;

/** Returns the position after the closing quote, or the end of the text if there is none. @param start position of the opening quote. */
export function skipString(text: string, start: number): number {
  let index = start + 1;
  for (;;) {
    let runEnd = index + SHORT_RUN;
    while (index < runEnd) {
      const code = text.charCodeAt(index);
      if (code === Code.quote) return index + 1;
      if (code !== Code.backslash) index++;
      else {
        index += 2;
        // Backslashes come in clusters.
        runEnd = index + SHORT_RUN;
      }
    }
    const quote = text.indexOf('"', index);
    if (quote === -1) return text.length;
    let first = quote;
    while (first > index && text.charCodeAt(first - 1) === Code.backslash) first--;
    index = quote + 1;
    if ((quote - first) % 2 === 0) return index;
  }
}

export function skipValue(text: string, start: number): number {
  const first = text.charCodeAt(start);
  if (first === Code.quote) return skipString(text, start);
  let index = start;
  let depth = 0;
  // A number or word may end with the text. Brackets of valid JSON are closed before it.
  while (index < text.length) {
    const code = text.charCodeAt(index);
    if (code === Code.quote) {
      index = skipString(text, index);
      continue;
    }
    if (code === Code.openBrace || code === Code.openBracket) depth++;
    else if (code === Code.closeBrace || code === Code.closeBracket) {
      if (depth === 0) return index;
      depth--;
      if (depth === 0) return index + 1;
    } else if (depth === 0 && (code === Code.comma || isWhitespace(code))) return index;
    index++;
  }
  return index;
}

/** A brace is a bracket with this bit set. */
const BRACE_BIT = 0x20;

/**
 * The next token from `start` on: the quote of a string, a bracket, a brace, a colon or a comma. White space, numbers and words are passed
 * over. The length of the text if there is none.
 */
export function nextToken(text: string, start: number): number {
  let index = start;
  while (index < text.length) {
    const code = text.charCodeAt(index);
    if (code === Code.quote || code === Code.comma || code === Code.colon) break;
    const brace = code | BRACE_BIT;
    if (brace === Code.openBrace || brace === Code.closeBrace) break;
    index++;
  }
  return index;
}
