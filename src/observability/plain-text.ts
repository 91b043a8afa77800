import type { Redact } from "./redact.ts";

/**
 * What makes a terminal do something, with its parameters (ECMA-48): a control sequence, a command with a text, another escape. None can
 * begin inside another one, so that the time is linear; that of `stripVTControlCharacters` is not, and a server may say megabytes.
 */
const ESCAPES =
  // oxlint-disable-next-line no-control-regex -- that is what it is about
  /(?:\u001B\[|\u009B)[0-?]*[ -/]*[@-~]|(?:\u001B[\]PX^_]|[\u0090\u0098\u009D-\u009F])[^\u0007\u001B\u0080-\u009F]*(?:\u0007|\u001B\\|\u009C)|\u001B[ -/]*[0-~]/g;

/** What a terminal would obey, or a reader would not see: controls, direction marks, zero-width characters. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** A text of somebody else's making, on one line and without anything that a terminal would obey. */
export function plainText(text: string): string {
  return text.replace(ESCAPES, "").replace(INVISIBLE, " ");
}

/** Masked before, since a secret may hold what is taken out, and behind: what is taken out may stand between the halves of one. */
export function maskedPlainText(text: string, redact: Redact): string {
  return redact(plainText(redact(text)));
}
