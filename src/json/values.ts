import { decodeString, type Span } from "./strings.ts";
import { Code, skipWhitespace } from "./tokens.ts";
import { nextToken, skipString, skipValue } from "./walk.ts";

/** A container that is being built, and the name of the member that comes next in it. */
interface Frame {
  readonly container: unknown[] | Record<string, unknown>;
  name: string;
}

/**
 * The value that a part of a text stands for. The engine builds it unless a name has a backslash; it may misread such names (see
 * `decodeString`). Those values are built here. The last of repeated names counts. `__proto__` is an ordinary name.
 *
 * @param text in which the part was found valid. Its value takes many times its memory: the caller limits its length.
 */
export function readValue(text: string, { start, end }: Span = { start: 0, end: text.length }): unknown {
  // Nothing behind the part is looked at: a list is read element by element.
  const part = text.slice(start, end);
  return hasEscapedName(part) ? build(part) : JSON.parse(part);
}

/**
 * The value that a text stands for, if it is JSON.
 *
 * @throws SyntaxError
 */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  return hasEscapedName(text) ? build(text) : value;
}

function hasEscapedName(text: string): boolean {
  if (!text.includes("\\")) return false;
  let index = nextToken(text, 0);
  while (index < text.length) {
    if (text.charCodeAt(index) !== Code.quote) {
      index = nextToken(text, index + 1);
      continue;
    }
    const end = skipString(text, index);
    const next = nextToken(text, end);
    if (text.charCodeAt(next) === Code.colon && text.slice(index, end).includes("\\")) return true;
    index = next;
  }
  return false;
}

/** Without recursion: a peer chooses the depth. */
function build(text: string): unknown {
  const open: Frame[] = [];
  let index = skipWhitespace(text, 0);
  for (;;) {
    const code = text.charCodeAt(index);
    let value: unknown;
    if (code === Code.openBrace || code === Code.openBracket) {
      const frame = { container: code === Code.openBrace ? {} : [], name: "" };
      open.push(frame);
      index = readName(text, skipWhitespace(text, index + 1), frame);
      continue;
    }
    if (code === Code.comma) {
      index = readName(text, skipWhitespace(text, index + 1), open.at(-1));
      continue;
    }
    if (code === Code.closeBrace || code === Code.closeBracket) {
      value = open.pop()?.container;
      index++;
    } else {
      const end = skipValue(text, index);
      value = code === Code.quote ? decodeString(text, index, end) : JSON.parse(text.slice(index, end));
      index = end;
    }
    const parent = open.at(-1);
    if (parent === undefined) return value;
    put(parent, value);
    index = skipWhitespace(text, index);
  }
}

/** @returns where the next value begins, behind the name if one stands at `start`. */
function readName(text: string, start: number, frame: Frame | undefined): number {
  if (frame === undefined || Array.isArray(frame.container) || text.charCodeAt(start) !== Code.quote) return start;
  const end = skipString(text, start);
  frame.name = decodeString(text, start, end);
  return skipWhitespace(text, skipWhitespace(text, end) + 1);
}

function put({ container, name }: Frame, value: unknown): void {
  if (Array.isArray(container)) container.push(value);
  else if (name === "__proto__") Object.defineProperty(container, name, { value, writable: true, enumerable: true, configurable: true });
  else container[name] = value;
}
