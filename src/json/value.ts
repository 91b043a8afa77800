import { JsonScanner, Shape } from "./read.ts";
import { Code, decodeString, skipString, skipValue, skipWhitespace, type Span } from "./text.ts";

const NO_MEMBERS = new Shape({});

interface Frame {
  readonly container: unknown[] | Record<string, unknown>;
  name: string;
}

/**
 * Returns the value of a part of a text. The engine builds it, unless a name has a backslash (see `decodeString`). The last of repeated
 * members counts, and `__proto__` is an ordinary name. A value takes many times the memory of its text, so the caller must limit its length.
 *
 * @throws SyntaxError if it is not JSON.
 */
export function readValue(text: string, { start, end }: Span = { start: 0, end: text.length }): unknown {
  const part = text.slice(start, end);
  if (!part.includes("\\")) return JSON.parse(part);
  const scanner = new JsonScanner(part, NO_MEMBERS);
  scanner.advance();
  return scanner.isValid && scanner.outline.hasEscapedName ? build(part) : JSON.parse(part);
}

/** Does not recurse, because a peer chooses the depth. */
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

/** The largest estimated size of a value that is built: less than half of the memory limit of a worker thread. */
export const MAX_VALUE_BYTES = 64 * 1024 * 1024;
/** Measured on 64-bit V8: an empty object takes 70 bytes, and a member with its own name 100. Comparison doubles this. */
const BYTES_OF_CONTAINER = 80;
const BYTES_OF_MEMBER = 200;
const BYTES_OF_STRING = 48;
const BYTES_OF_ITEM = 16;

/**
 * Estimates the most bytes that a value takes without the characters of its strings: `{},{},…` takes forty times its text. A parser that
 * reaches the memory limit of the process or of a thread ends the whole process, so no such value is built. @param maxBytes stops the
 * estimate.
 */
export function estimatedBytes(text: string, maxBytes = Infinity): number {
  let bytes = 0;
  let index = 0;
  while (index < text.length && bytes <= maxBytes) {
    switch (text.charCodeAt(index)) {
      case Code.quote:
        bytes += BYTES_OF_STRING;
        index = skipString(text, index);
        continue;
      case Code.openBrace:
      case Code.openBracket:
        bytes += BYTES_OF_CONTAINER;
        break;
      case Code.colon:
        bytes += BYTES_OF_MEMBER;
        break;
      case Code.comma:
        bytes += BYTES_OF_ITEM;
        break;
      default:
    }
    index++;
  }
  return bytes;
}
