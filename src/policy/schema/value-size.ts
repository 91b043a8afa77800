import { skipString } from "../../json/find.ts";
import { Code } from "../../json/tokens.ts";

/** Measured with V8 on 64 bits, and more than that: an empty object takes 70 bytes, a member with a name of its own takes 100, and as much again while names are compared. */
const BYTES_OF_CONTAINER = 80;
const BYTES_OF_MEMBER = 200;
const BYTES_OF_STRING = 48;
const BYTES_OF_ITEM = 16;

/**
 * About how much memory a value takes at most, besides the characters of its strings. A parser is not stopped by the memory limit of its
 * thread: the limit ends the whole process instead. So no value is built that could reach it.
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

/** Whether a value consists of at most `limit` values. */
export function hasAtMost(limit: number, value: unknown): boolean {
  const open = [value];
  let count = 1;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (typeof next !== "object" || next === null) continue;
    const parts: unknown[] = Object.values(next);
    count += parts.length;
    if (count > limit) return false;
    for (const part of parts) open.push(part);
  }
  return true;
}

/** Whether a value has more than `levels` levels. */
export function isDeeperThan(levels: number, value: unknown): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > levels) return true;
    level = level.flatMap((part): unknown[] => (typeof part === "object" && part !== null ? Object.values(part) : []));
  }
  return false;
}
