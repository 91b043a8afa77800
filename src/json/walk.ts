import { Code, isWhitespace, skipWhitespace } from "./tokens.ts";

/** Ends a walk in front of the member or element that was visited. */
export const STOP = -1;

/**
 * Visits one member. The name goes from `keyStart` to `keyEnd`, its quotes included.
 *
 * @returns the end of the value (see `skipValue`), or STOP.
 */
type VisitMember = (keyStart: number, keyEnd: number, valueStart: number) => number;

/**
 * Walks over the members of an object, in text that was found valid.
 *
 * @param start of the object; white space before it is allowed.
 * @returns the position of the closing brace, or of the name at which the walk was stopped.
 */
export function walkMembers(text: string, start: number, visit: VisitMember): number {
  let index = skipWhitespace(text, skipWhitespace(text, start) + 1);
  while (text.charCodeAt(index) === Code.quote) {
    const keyEnd = skipString(text, index);
    // Past the name: white space, the colon, white space.
    const end = visit(index, keyEnd, skipWhitespace(text, skipWhitespace(text, keyEnd) + 1));
    if (end === STOP) return index;
    index = skipComma(text, end);
  }
  return index;
}

/** As `walkMembers`, over the elements of an array. */
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

/** For the first characters of a string a loop is faster; beyond them, `indexOf` takes microseconds for a megabyte. */
const SHORT_RUN = 24;

/** From an opening quote to just past the closing one, or to the end of a text that has none. */
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
  // The end of the text stops a bare number or word; inside brackets, valid JSON closes them first.
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
