import { Code } from "./tokens.ts";

const SHORT_LENGTH = 64;
/** The escapes that do not stand for their own letter. */
const SHORT_ESCAPES: ReadonlyMap<string, string> = new Map([
  ["b", "\b"],
  ["f", "\f"],
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
]);

/** Below this, what a part keeps in memory does not matter. */
const LONG_TEXT = 16 * 1024;

/** A part that may outlast its text: V8 would keep all of a text for a slice of it. */
export function detached(part: string, text: string): string {
  return text.length < LONG_TEXT ? part : Buffer.from(part).toString();
}

/** A part of a text. */
export interface Span {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
}

/**
 * The string that a JSON string stands for. Each is decoded by itself: V8 misreads an escaped name of an object after it has read certain
 * others (nodejs/node#63785), but never a single string.
 *
 * @param start of the opening quote, in text that was found valid.
 */
export function decodeString(text: string, start: number, end: number): string {
  const inner = text.slice(start + 1, end - 1);
  if (!inner.includes("\\")) return inner;
  return inner.length > SHORT_LENGTH ? (JSON.parse(`"${inner}"`) as string) : decodeShort(inner);
}

/** For short strings, of which there may be very many, the way into the engine's parser takes longer than the decoding. */
function decodeShort(inner: string): string {
  let decoded = "";
  for (let index = 0; index < inner.length; index++) {
    const character = inner.charAt(index);
    if (character !== "\\") decoded += character;
    else if (inner.charCodeAt(++index) === Code.lowerU) {
      decoded += String.fromCharCode(Number.parseInt(inner.slice(index + 1, index + 5), 16));
      index += 4;
    } else decoded += SHORT_ESCAPES.get(inner.charAt(index)) ?? inner.charAt(index);
  }
  return decoded;
}

/** A quote, a backslash, a control character. */
const NEEDS_ESCAPE = /[^ !#-[\]-\uffff]/;

/**
 * The name as every reader reads it, without any escape.
 *
 * @param start of the opening quote of a name that has a backslash.
 * @returns undefined for a name that cannot be spelled without one: it has a quote, a backslash, a control character or half a pair.
 */
export function plainName(text: string, start: number, end: number): string | undefined {
  const name = decodeString(text, start, end);
  return name.isWellFormed() && !NEEDS_ESCAPE.test(name) ? `"${name}"` : undefined;
}
