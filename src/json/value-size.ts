import { Code } from "./tokens.ts";
import { skipString } from "./walk.ts";

/** The largest estimated size of a value that is built: less than half of the memory limit of a worker thread. */
export const MAX_VALUE_BYTES = 64 * 1024 * 1024;
/**
 * Measured on 64-bit V8 and rounded up. An empty object takes 70 bytes, and a member with its own name 100. Comparison doubles this.
 */
const BYTES_OF_CONTAINER = 80;
const BYTES_OF_MEMBER = 200;
const BYTES_OF_STRING = 48;
const BYTES_OF_ITEM = 16;

/**
 * Estimates the largest memory of a value, in bytes, without the characters of its strings. `{},{},…` takes forty times its text. A
 * parser that reaches the memory limit of the process, or of a thread, ends the whole process. So no value is built that could reach it.
 *
 * @param text valid JSON.
 * @param maxBytes stops the estimate above this number.
 */
export function estimatedBytes(text: string, maxBytes = Number.POSITIVE_INFINITY): number {
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
