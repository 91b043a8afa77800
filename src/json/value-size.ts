import { Code } from "./tokens.ts";
import { skipString } from "./walk.ts";

/** No larger value is built, by the estimate below: less than half of the memory limit of a worker thread. */
export const MAX_VALUE_BYTES = 64 * 1024 * 1024;
/**
 * Measured on 64-bit V8 and rounded up: an empty object takes 70 bytes, a member with its own name 100, and twice that during comparison.
 */
const BYTES_OF_CONTAINER = 80;
const BYTES_OF_MEMBER = 200;
const BYTES_OF_STRING = 48;
const BYTES_OF_ITEM = 16;

/**
 * About how much memory a value takes at most, besides the characters of its strings: of `{},{},…`, forty times its text. A parser that
 * reaches the memory limit of a process, or of one of its threads, ends the whole process. So no value is built that could.
 *
 * @param text valid JSON.
 */
export function estimatedBytes(text: string): number {
  let bytes = 0;
  let index = 0;
  while (index < text.length) {
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
