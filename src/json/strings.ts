import { Code } from "./tokens.ts";

const SHORT_LENGTH = 64;
/** The escapes whose letter differs from the character. */
const SHORT_ESCAPES: ReadonlyMap<string, string> = new Map([
  ["b", "\b"],
  ["f", "\f"],
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
]);

/** A shorter text may stay in memory. In UTF-16 units. */
const LONG_TEXT = 16 * 1024;

/** Returns a copy of a slice that may be kept longer than its text, because V8 would keep the whole text for the slice. */
export function detached(part: string, text: string): string {
  return text.length < LONG_TEXT ? part : copied(part);
}

/** Returns a copy of a text that may be a slice of any other one. */
export function copied(text: string): string {
  return JSON.parse(JSON.stringify(text)) as string;
}

/** A part of a text. */
export interface Span {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
}

/**
 * Decodes a JSON string. Each is decoded separately, because V8 misreads an escaped name of an object after certain others
 * (nodejs/node#63785), but not a single string.
 *
 * @param start position of the opening quote, in valid text.
 */
export function decodeString(text: string, start: number, end: number): string {
  const inner = text.slice(start + 1, end - 1);
  if (!inner.includes("\\")) return inner;
  return inner.length > SHORT_LENGTH ? (JSON.parse(`"${inner}"`) as string) : decodeShort(inner);
}

/** Decodes a short string, faster than a call of the engine's parser. There may be very many of them. */
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

/** A quote, a backslash, or a control character. */
const NEEDS_ESCAPE = /[^ !#-[\]-\uffff]/;

/**
 * Returns a name in quotes, without escapes, so that every parser reads it the same.
 *
 * @param start position of the opening quote of a name that has a backslash.
 * @returns undefined if the name needs escapes: it has a quote, a backslash, a control character or a lone surrogate.
 */
export function plainName(text: string, start: number, end: number): string | undefined {
  const name = decodeString(text, start, end);
  return name.isWellFormed() && !NEEDS_ESCAPE.test(name) ? `"${name}"` : undefined;
}
