import { Code, decodeString, isOtherCase, skipValue, skipWhitespace, type Span, STOP, walkElements, walkMembers } from "./text.ts";

/**
 * The members that were found in valid JSON text, which is not checked again. Each name is decoded separately, because the engine's parser
 * misreads escaped names of an object (see `decodeString`).
 */
export interface Members {
  /** The spans in the order of the requested names. The last one counts if a name is repeated. */
  readonly spans: readonly (Span | undefined)[];
  /** The first of the names that occurs twice. Parsers differ on which one counts. */
  readonly duplicate: string | undefined;
  /** The first name in the text that some parsers take for one of the names, because they ignore case (see `isOtherCase`). */
  readonly otherCase: string | undefined;
}

/** Finds the values of the named members of the object that starts at `start`, after optional white space. */
export function findMembers(text: string, start: number, names: readonly string[]): Members {
  const spans: (Span | undefined)[] = names.map(() => undefined);
  let duplicate: string | undefined;
  let otherCase: string | undefined;
  walkMembers(text, start, (keyStart, keyEnd, valueStart) => {
    const valueEnd = skipValue(text, valueStart);
    const length = keyEnd - keyStart - 2;
    let position = -1;
    // Most other names are excluded by their length, which is cheap. An escape takes up to six characters for one.
    let isLike = false;
    for (let index = 0; index < names.length && position === -1; index++) {
      const name = names[index] ?? "";
      if (name.length === length && text.startsWith(name, keyStart + 1)) position = index;
      isLike ||= name.length <= length && length <= 6 * name.length;
    }
    if (position === -1 && isLike) {
      // Such as "\u0069d", or "ID".
      const key = decodeString(text, keyStart, keyEnd);
      position = names.indexOf(key);
      if (position === -1 && otherCase === undefined && names.some((name) => isOtherCase(key, name))) otherCase = key;
    }
    if (position !== -1) {
      if (spans[position] !== undefined) duplicate ??= names[position];
      spans[position] = { start: valueStart, end: valueEnd };
    }
    return valueEnd;
  });
  return { spans, duplicate, otherCase };
}

/** Returns the first of the names that the object at `start` has twice, or else a name in it that differs from one in case only. */
export function findAmbiguous(text: string, start: number, names: readonly string[]): string | undefined {
  const { duplicate, otherCase } = findMembers(text, start, names);
  return duplicate ?? otherCase;
}

/** Returns the text of a part; undefined if it is absent. */
export function textOf(text: string, span: Span | undefined): string | undefined {
  return span === undefined ? undefined : text.slice(span.start, span.end);
}

/** Returns the value of a part that is a string; undefined for any other. */
export function stringOf(text: string, span: Span | undefined): string | undefined {
  return span !== undefined && text[span.start] === '"' ? decodeString(text, span.start, span.end) : undefined;
}

/** Finds a nested member of the object that starts at `start`. @returns undefined if a level of the path is absent or not an object. */
export function findPath(text: string, start: number, path: readonly string[]): Span | undefined {
  let span: Span | undefined = { start, end: text.length };
  for (const name of path) {
    if (text.charCodeAt(skipWhitespace(text, span.start)) !== Code.openBrace) return undefined;
    span = findMembers(text, span.start, [name]).spans[0];
    if (span === undefined) return undefined;
  }
  return span;
}

/** Finds the elements of the array that starts at `start`, after optional white space. */
export function findElements(text: string, start = 0, maxCount = Number.POSITIVE_INFINITY): Span[] {
  const spans: Span[] = [];
  walkElements(text, start, (elementStart) => {
    if (spans.length >= maxCount) return STOP;
    const end = skipValue(text, elementStart);
    spans.push({ start: elementStart, end });
    return end;
  });
  return spans;
}
