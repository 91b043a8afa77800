import { detached, type Span } from "../json/strings.ts";

/** A longer text is not kept. In UTF-16 units. */
const MAX_LENGTH = 1024;

/** Keeps the value of the last text: a client sends the same text with each of its messages, and a comparison is much cheaper than a search. */
export class LastText<Value extends object> {
  readonly #read: (text: string) => Value;
  #last: { readonly text: string; readonly value: Value } | undefined;

  /** @param read returns the value of a text, which must not be changed. */
  constructor(read: (text: string) => Value) {
    this.#read = read;
  }

  /** Returns the value of a part of a text. */
  valueAt(text: string, { start, end }: Span): Value {
    const part = text.slice(start, end);
    if (this.#last?.text === part) return this.#last.value;
    const value = this.#read(part);
    if (part.length <= MAX_LENGTH) this.#last = { text: detached(part, text), value };
    return value;
  }
}
