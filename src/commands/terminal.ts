import type { Environment } from "../config/load.ts";
import { plainText, shorten } from "../json/text.ts";

const INTERVAL_MS = 500;
const DEFAULT_COLUMNS = 80;
const ERASE_LINE = "\r\u001B[2K";

/** Stdout or stderr, as the process has it. */
export interface Terminal {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

/** Some terminals do not know their width, and say 0. */
export function columnsOf({ columns = 0 }: Terminal): number {
  return columns > 0 ? columns : DEFAULT_COLUMNS;
}

/** The text, shortened so that it is sure to fit: a character that is not ASCII may be two columns wide. */
function shortenToColumns(text: string, columns: number): string {
  let width = 0;
  let length = 0;
  for (const character of text) {
    width += widthOf(character);
    if (width > columns) return shorten(text, length);
    if (width + widthOf("…") <= columns) length += character.length;
  }
  return text;
}

function widthOf(character: string): number {
  return character > "~" ? 2 : 1;
}

/**
 * Tells, on one line that is written over and over, that it still waits and for how long: an `npx` server may download for a minute.
 * Only on a terminal; what ends at once shows nothing.
 */
export class ProgressLine {
  readonly #terminal: Terminal;
  readonly #timer: NodeJS.Timeout | undefined;
  #isShown = false;

  /** @param lastWords what is told besides, where there is something. */
  constructor(terminal: Terminal, environment: Environment, what: string, lastWords: () => string | undefined) {
    this.#terminal = terminal;
    // A dumb terminal can only add to what it shows.
    if (terminal.isTTY !== true || environment["TERM"] === "dumb") return;
    const startMs = performance.now();
    this.#timer = setInterval(() => {
      const seconds = Math.floor((performance.now() - startMs) / 1000);
      const words = lastWords() ?? "";
      const line = plainText(`${what}, ${seconds} s${words === "" ? "" : `: ${words}`}`);
      // In the last column the line might be broken, and only half of it erased.
      terminal.write(`${ERASE_LINE}${shortenToColumns(line, columnsOf(terminal) - 1)}`);
      this.#isShown = true;
    }, INTERVAL_MS).unref();
  }

  /** Makes room for a line of somebody else; this one is back in a moment. */
  erase(): void {
    // Whatever takes a return for the end of a line finds nothing of this one in front of the next.
    if (this.#isShown) this.#terminal.write(`${ERASE_LINE}\r`);
    this.#isShown = false;
  }

  end(): void {
    clearInterval(this.#timer);
    if (this.#isShown) this.#terminal.write(ERASE_LINE);
    this.#isShown = false;
  }
}
