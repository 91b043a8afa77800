import { Code, decodeString, isOtherCase, skipWhitespace, type Span, walk } from "./text.ts";

/**
 * Finds members of the object that starts at `start`, after optional white space. The text must be valid. The last one of repeated members
 * counts.
 *
 * @returns `double`: the first name that occurs twice, or that some parsers take for one of the names (see `isOtherCase`).
 */
export function findMembers(text: string, start: number, names: readonly string[]) {
  const spans: (Span | undefined)[] = names.map(() => undefined);
  let double: string | undefined;
  walk(text, start, (valueStart, end, nameStart, nameEnd) => {
    const length = nameEnd - nameStart - 2;
    let position = -1;
    // Most other names are excluded by their length. An escape takes up to six characters for one.
    let isLike = false;
    for (let index = 0; index < names.length && position === -1; index++) {
      const name = names[index] ?? "";
      if (name.length === length && text.startsWith(name, nameStart + 1)) position = index;
      isLike ||= name.length <= length && length <= 6 * name.length;
    }
    if (position === -1 && isLike) {
      // Such as "\u0069d", or "ID".
      const name = decodeString(text, nameStart, nameEnd);
      position = names.indexOf(name);
      if (position === -1 && double === undefined && names.some((each) => isOtherCase(name, each))) double = name;
    }
    if (position === -1) return;
    if (spans[position] !== undefined) double ??= names[position];
    spans[position] = { start: valueStart, end };
  });
  return { spans, double };
}

export function textOf(text: string, span: Span | undefined): string | undefined {
  return span === undefined ? undefined : text.slice(span.start, span.end);
}

export function stringOf(text: string, span: Span | undefined): string | undefined {
  return span !== undefined && text[span.start] === '"' ? decodeString(text, span.start, span.end) : undefined;
}

/** @returns undefined if a level of the path is absent or not an object, and for the start -1 of an absent value. */
export function findPath(text: string, start: number, path: readonly string[]): Span | undefined {
  let span: Span | undefined = { start, end: text.length };
  for (const name of path) {
    if (text.charCodeAt(skipWhitespace(text, span.start)) !== Code.openBrace) return undefined;
    span = findMembers(text, span.start, [name]).spans[0];
    if (span === undefined) return undefined;
  }
  return span;
}

export function findElements(text: string, start = 0, maxCount = Infinity): Span[] {
  const spans: Span[] = [];
  walk(text, start, (elementStart, end) => (spans.push({ start: elementStart, end }) < maxCount ? undefined : false));
  return spans;
}
