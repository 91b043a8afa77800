import type { Environment } from "../config/load.ts";
import { plainText, shorten } from "../json/text.ts";

const INTERVAL_MS = 500;
const DEFAULT_COLUMNS = 80;
const ERASE_LINE = "\r\u001B[2K";

export interface Terminal {
  readonly isTTY?: boolean;
  readonly columns?: number;
}

/** Some terminals report a width of 0. */
export function columnsOf({ columns = 0 }: Terminal): number {
  return columns > 0 ? columns : DEFAULT_COLUMNS;
}

/** Each character that is not ASCII counts as two columns, most emoji as three. */
function shortenToColumns(text: string, columns: number): string {
  // Zeros, which a plain text does not have, fill the columns.
  const filled = text.replaceAll(/[^ -~]/gu, "$&\0");
  return shorten(filled, Math.max(0, columns - "… ".length)).replaceAll("\0", "");
}

/**
 * Shows the waiting time, because an `npx` server may download for a minute. A short wait shows nothing, nor does a stream that is no terminal.
 *
 * @param textsOf returns the text before the waiting time, and one to show after it.
 * @returns `erase`, after which the line returns at the next interval, and `end`.
 */
export function showProgress(
  terminal: Terminal,
  write: (text: string) => void,
  environment: Environment,
  textsOf: () => [subject: string, lastWords: string],
) {
  let isShown = false;
  const startMs = performance.now();
  const show = (): void => {
    const seconds = Math.floor((performance.now() - startMs) / 1000);
    const [subject, lastWords] = textsOf();
    const line = plainText(`${subject}, ${seconds} s${lastWords && `: ${lastWords}`}`);
    // A terminal may wrap the line at its last column, and then erase only half of it.
    write(`${ERASE_LINE}${shortenToColumns(line, columnsOf(terminal) - 1)}`);
    isShown = true;
  };
  // A dumb terminal cannot erase text.
  const canErase = terminal.isTTY === true && environment["TERM"] !== "dumb";
  const timer = canErase ? setInterval(show, INTERVAL_MS).unref() : undefined;
  const clear = (ending: string): void => {
    if (isShown) write(`${ERASE_LINE}${ending}`);
    isShown = false;
  };
  const end = (): void => {
    clearInterval(timer);
    clear("");
  };
  // A program that ends lines at a carriage return then finds no part of this line before the next one.
  return { erase: () => clear("\r"), end };
}

/** A second signal of number n exits with 128 + n. */
export const ExitCode = {
  ok: 0,
  failed: 1,
  wrongConfiguration: 2,
  /** `discover --check`: the tools differ from the descriptor. */
  drift: 3,
  notExecutable: 126,
  notFound: 127,
} as const;
