import type { Random } from "../../chaos/random.ts";

/** JSON texts, spelled in every way that the grammar allows, and texts that are nearly JSON. Much faster than fast-check. */
export class RandomJson {
  readonly #random: Random;
  readonly #names: readonly string[];

  /** @param names that occur more often than others, at all levels, and in other cases. */
  constructor(random: Random, names: readonly string[]) {
    this.#random = random;
    this.#names = names;
  }

  /** Returns valid JSON, usually an object. */
  text(): string {
    const kind = this.#random.integer(0, 99);
    const value =
      kind === 0 ? this.#deep() : kind === 1 ? this.#wide() : kind < 80 ? this.#object(3) : kind < 90 ? this.#array(3) : this.#value(3);
    return this.#space() + value + this.#space();
  }

  /** Returns the text with changes of a few characters, which is seldom JSON. */
  mutated(text: string): string {
    let result = text;
    for (let count = this.#random.integer(1, 3); count > 0; count--) {
      const at = this.#random.integer(0, result.length);
      const length = this.#random.integer(0, 2);
      const kind = this.#random.integer(0, 4);
      if (kind === 0) result = result.slice(0, at) + result.slice(at + 1 + length);
      else if (kind === 1) result = result.slice(0, at) + this.#pick(ODD) + result.slice(at);
      else if (kind === 2) result = result.slice(0, at) + this.#pick(ODD) + result.slice(at + 1);
      else if (kind === 3) result = result.slice(0, at);
      else result = result.slice(0, at) + result.slice(at - Math.min(at, 5), at) + result.slice(at);
    }
    return result;
  }

  #value(depth: number): string {
    const kind = this.#random.integer(0, depth > 0 ? 9 : 5);
    if (kind < 2) return this.#string();
    if (kind < 4) return this.#number();
    if (kind < 6) return this.#pick(LITERALS);
    return kind < 8 ? this.#array(depth) : this.#object(depth);
  }

  #array(depth: number): string {
    const items = Array.from({ length: this.#random.integer(0, 3) }, () => this.#space() + this.#value(depth - 1) + this.#space());
    return `[${items.length === 0 ? this.#space() : items.join(",")}]`;
  }

  #object(depth: number): string {
    const members = Array.from({ length: this.#random.integer(0, 5) }, () => this.#member(this.#value(depth - 1)));
    return `{${members.length === 0 ? this.#space() : members.join(",")}}`;
  }

  #member(value: string): string {
    return `${this.#space()}${this.#name()}${this.#space()}:${this.#space()}${value}${this.#space()}`;
  }

  #deep(): string {
    const levels = Array.from({ length: this.#random.integer(1, 300) }, () => this.#random.isLucky(0.5));
    const open = levels.map((isObject) => (isObject ? `{${this.#name()}:` : "[")).join("");
    const close = levels.map((isObject) => (isObject ? "}" : "]"));
    return open + this.#value(1) + close.toReversed().join("");
  }

  #wide(): string {
    const items = Array.from({ length: this.#random.integer(100, 1200) });
    if (this.#random.isLucky(0.5)) return `[${items.map(() => this.#pick(SMALL)).join(",")}]`;
    return `{${items.map(() => `${this.#name()}:${this.#pick(SMALL)}`).join(",")}}`;
  }

  #name(): string {
    const random = this.#random;
    const kind = random.integer(0, 9);
    if (kind === 0) return this.#string();
    const name = this.#pick(this.#names);
    if (kind < 5) return `"${name}"`;
    if (kind === 5) return `"${this.#otherCase(name)}"`;
    if (kind === 6) return `"${name.slice(0, random.integer(0, name.length))}${this.#pick(ESCAPES)}"`;
    return `"${this.#escaped(kind === 7 ? this.#otherCase(name) : name)}"`;
  }

  #otherCase(name: string): string {
    return Array.from(name, (letter) => (this.#random.isLucky(0.3) ? (FOLDED[letter] ?? letter.toUpperCase()) : letter)).join("");
  }

  #escaped(name: string): string {
    return Array.from(name, (letter) => {
      const hex = letter.charCodeAt(0).toString(16).padStart(4, "0");
      return this.#random.isLucky(0.3) ? `\\u${this.#random.isLucky(0.5) ? hex : hex.toUpperCase()}` : letter;
    }).join("");
  }

  #string(): string {
    const random = this.#random;
    // Strings of more than 24 characters are read in another way.
    const length = random.isLucky(0.02) ? random.integer(20, 3000) : random.integer(0, 30);
    if (random.isLucky(0.3)) return `"${this.#pick(PLAIN).repeat(length)}${random.isLucky(0.3) ? this.#pick(ESCAPES) : ""}"`;
    let text = "";
    while (text.length < length) text += random.isLucky(0.2) ? this.#pick(ESCAPES) : this.#pick(PLAIN);
    return `"${text}"`;
  }

  #number(): string {
    const random = this.#random;
    const digits = (most: number): string => Array.from({ length: random.integer(1, most) }, () => random.integer(0, 9)).join("");
    const whole = random.isLucky(0.2) ? "0" : `${random.integer(1, 9)}${random.isLucky(0.5) ? digits(20) : ""}`;
    const fraction = random.isLucky(0.3) ? `.${digits(6)}` : "";
    const exponent = random.isLucky(0.3) ? `${this.#pick(["e", "E"])}${this.#pick(["", "+", "-"])}${digits(4)}` : "";
    return `${random.isLucky(0.3) ? "-" : ""}${whole}${fraction}${exponent}`;
  }

  #space(): string {
    return this.#random.isLucky(0.85) ? "" : this.#pick([" ", "\n", "\t", "\r\n", "  \r "]);
  }

  #pick(items: readonly string[]): string {
    return this.#random.pick(items) ?? "";
  }
}

const LITERALS = ["true", "false", "null"];
const SMALL = ["1", "{}", "[]", '""', "null", '"\\n"', "-0"];
const PLAIN = ["a", "id", "{", "}", "[", "]", ":", ",", " ", "é", "€", "😀", "\u2028", "\u007f", "\ud800", "0"];
const ESCAPES = ['\\"', "\\\\", "\\/", "\\b", "\\f", "\\n", "\\r", "\\t", "\\u0069", "\\u00E9", "\\ud83d", "\\u0000", "\\u2028"];
/** Changes that make a text invalid, or a different JSON text. */
const ODD = String.raw`{ } [ ] , : " \ ' 0 1 - + . e E t true nul NaN Infinity undefined / // /**/ u \u \x41 \u12 "" "a": ,, {} "id":1,`
  .split(" ")
  .concat([" ", "\n", "\u0000", "\u0001", "\u001f", "\u007f", "\u00a0", "\ufeff", "\u2028"]);
const FOLDED: Readonly<Record<string, string>> = { s: "\u017f", k: "\u212a", i: "\u0131" };
