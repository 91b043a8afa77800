import { Nesting } from "./nesting.ts";
import type { Outline, Shape } from "./outline.ts";
import { OutlineBuilder } from "./outline-builder.ts";
import type { Span } from "./strings.ts";
import { Code, escapeEnd, isNumberStart, literalEnd, numberEnd, skipWhitespace } from "./tokens.ts";

/** The token expected next. */
const State = { value: 0, firstElement: 1, firstName: 2, name: 3, comma: 4, inString: 5, inName: 6, colon: 7, done: 8, failed: 9 } as const;
type State = (typeof State)[keyof typeof State];

/** The text for people, by state. */
const EXPECTED: readonly string[] = ["a value", "a value or ]", "a name or }", "a name", "", "", "", ":"];

/** Not allowed in a string. */
// oxlint-disable-next-line no-control-regex -- a class of all other characters takes half as long again
const CONTROL = /[\0-\u001f]/g;
/** A loop is faster for the first characters of a string. For the rest, a search for the next special character is faster. */
const SHORT_RUN = 24;
/** The number of array elements whose positions are recorded; more are only counted. */
const MAX_ELEMENTS = 1000;

/**
 * Scans a JSON text (RFC 8259) and records the positions of the members of a shape. It accepts the same texts as `JSON.parse` but builds no
 * values. It keeps one bit per level of nesting, does not recurse, and can pause at any point. `begin` reuses it for another text.
 */
export class JsonScanner {
  /** The first elements, if the text is an array. */
  elements: Span[] = [];
  elementCount = 0;
  /** The type of the text; false before the scan has reached its first token. */
  isArray = false;
  isObject = false;
  #text = "";
  #state: State = State.value;
  #index = 0;
  readonly #open = new Nesting();
  readonly #members = new OutlineBuilder();
  /** The start of the last string. */
  #stringStart = 0;
  #failedIn: State = State.value;
  #isEscaped = false;
  // The position of the next such character, or the end of the step if it has none; -1 before the first search of a step.
  #quoteAt = -1;
  #backslashAt = -1;
  #controlAt = -1;

  /** @param notesEscapes true to record the positions of names with a backslash. */
  constructor(text: string, shape: Shape, notesEscapes = true) {
    this.begin(text, shape, notesEscapes);
  }

  /** Begins another text. */
  begin(text: string, shape: Shape, notesEscapes = true): void {
    if (this.elementCount > 0) this.elements = [];
    this.elementCount = 0;
    this.isArray = this.isObject = false;
    this.#text = text;
    this.#state = State.value;
    this.#index = 0;
    this.#open.clear();
    this.#members.begin(text, shape, notesEscapes);
  }

  /** The positions of the members that were found so far. */
  get outline(): Outline {
    return this.#members.build();
  }

  get isDone(): boolean {
    return this.#state === State.done || this.#state === State.failed;
  }

  /** True if the text is JSON. To be read when `isDone`. */
  get isValid(): boolean {
    return this.#state === State.done;
  }

  /** The position at which a failed text stops being JSON, and the expected token; undefined at the start of a malformed string. */
  get failure(): { readonly index: number; readonly expected: string | undefined } {
    const { depth, isObject } = this.#open;
    if (this.#failedIn === State.inString || this.#failedIn === State.inName) return { index: this.#stringStart, expected: undefined };
    const comma = depth === 0 ? "the end" : isObject ? ", or }" : ", or ]";
    return { index: this.#index, expected: this.#failedIn === State.comma ? comma : EXPECTED[this.#failedIn] };
  }

  /** Continues for about `length` UTF-16 units. */
  advance(length = Number.POSITIVE_INFINITY): void {
    const text = this.#text;
    const end = text.length;
    const stop = Math.min(end, this.#index + length);
    this.#quoteAt = this.#backslashAt = this.#controlAt = -1;
    while (this.#state < State.done) {
      if (this.#state === State.inString || this.#state === State.inName) {
        this.#scanString(stop);
        if (this.#state === State.inString || this.#state === State.inName) return;
        continue;
      }
      this.#index = skipWhitespace(text, this.#index, stop);
      if (this.#index >= stop && stop < end) return;
      const code = text.charCodeAt(this.#index);
      if (this.#index >= end) {
        if (this.#state === State.comma && this.#open.depth === 0) this.#state = State.done;
        else this.#fail();
        return;
      }
      if (this.#state === State.comma) this.#scanComma(code);
      else if (this.#state === State.colon) this.#scanColon(code);
      else if (this.#state === State.value) this.#scanValue(code);
      else if (this.#state === State.firstElement) {
        if (code === Code.closeBracket) this.#close();
        else this.#scanValue(code);
      } else if (code === Code.quote) {
        this.#stringStart = this.#index++;
        this.#isEscaped = false;
        this.#state = State.inName;
      } else if (code === Code.closeBrace && this.#state === State.firstName) this.#close();
      else this.#fail();
      if (this.#index >= stop && stop < end) return;
    }
  }

  #scanComma(code: number): void {
    if (this.#open.depth === 0) this.#fail();
    else if (code === Code.comma) {
      this.#index++;
      this.#state = this.#open.isObject ? State.name : State.value;
    } else if (code === (this.#open.isObject ? Code.closeBrace : Code.closeBracket)) this.#close();
    else this.#fail();
  }

  #scanValue(code: number): void {
    const depth = this.#open.depth;
    this.#members.beginValue(this.#index, depth, code === Code.openBrace);
    if (depth === 1 && this.isArray && ++this.elementCount <= MAX_ELEMENTS) this.elements.push({ start: this.#index, end: this.#index });
    if (code === Code.quote) {
      this.#stringStart = this.#index++;
      this.#state = State.inString;
    } else if (code === Code.openBrace) {
      if (depth === 0) this.isObject = true;
      this.#open.open(true);
      this.#index++;
      this.#state = State.firstName;
    } else if (code === Code.openBracket) {
      if (depth === 0) this.isArray = true;
      this.#open.open(false);
      this.#index++;
      this.#state = State.firstElement;
    } else if (isNumberStart(code)) this.#endScalar(numberEnd(this.#text, this.#index));
    else this.#endScalar(literalEnd(this.#text, this.#index));
  }

  #close(): void {
    this.#open.close();
    this.#index++;
    this.#endValue();
  }

  #endValue(): void {
    this.#state = State.comma;
    const depth = this.#open.depth;
    this.#members.endValue(this.#index, depth);
    if (depth === 1 && this.isArray && this.elementCount <= MAX_ELEMENTS) {
      const start = this.elements.at(-1)?.start ?? 0;
      this.elements[this.elements.length - 1] = { start, end: this.#index };
    }
  }

  /** Continues within a string, to its end or a little after `stop`. */
  #scanString(stop: number): void {
    const text = this.#text;
    const end = text.length;
    let index = this.#index;
    for (;;) {
      const runEnd = Math.min(end, index + SHORT_RUN);
      let code = 0;
      while (index < runEnd) {
        code = text.charCodeAt(index);
        if (code === Code.quote || code === Code.backslash || code < Code.space) break;
        index++;
      }
      if (index === runEnd && runEnd < end) {
        index = this.#nextSpecial(index, stop);
        if (index >= stop && stop < end) {
          this.#index = index;
          return;
        }
        code = text.charCodeAt(index);
      }
      if (index >= end || code < Code.space) return this.#fail();
      index++;
      if (code === Code.quote) break;
      this.#isEscaped = true;
      // By far the most frequent, in JSON within a string.
      index = text.charCodeAt(index) === Code.quote ? index + 1 : escapeEnd(text, index);
      if (index === -1) return this.#fail();
      if (index >= stop && stop < end) {
        this.#index = index;
        return;
      }
    }
    this.#index = index;
    if (this.#state === State.inString) this.#endValue();
    else this.#endName();
  }

  /** Returns the next special character, or `stop`. A kind is searched again only after its last match, so each step is searched once. */
  #nextSpecial(index: number, stop: number): number {
    if (this.#quoteAt < index) this.#quoteAt = this.#search('"', index, stop);
    if (this.#backslashAt < index) this.#backslashAt = this.#search("\\", index, stop);
    if (this.#controlAt < index) {
      const part = this.#text.slice(index, stop);
      CONTROL.lastIndex = 0;
      this.#controlAt = index + (CONTROL.test(part) ? CONTROL.lastIndex - 1 : part.length);
    }
    return Math.min(this.#quoteAt, this.#backslashAt, this.#controlAt);
  }

  #search(character: string, index: number, stop: number): number {
    const found = this.#text.slice(index, stop).indexOf(character);
    return found === -1 ? stop : index + found;
  }

  #endName(): void {
    const end = this.#index;
    this.#members.endName(this.#stringStart, end, this.#isEscaped, this.#open.depth);
    this.#state = State.colon;
    // White space before the colon is rare and may be long, so `advance` skips it.
    if (this.#text.charCodeAt(end) === Code.colon) this.#scanColon(Code.colon);
  }

  #scanColon(code: number): void {
    if (code !== Code.colon) return this.#fail();
    this.#state = State.value;
    this.#index++;
  }

  /** @param end -1 if the value is invalid. */
  #endScalar(end: number): void {
    if (end === -1) return this.#fail();
    this.#index = end;
    this.#endValue();
  }

  #fail(): void {
    this.#failedIn = this.#state;
    this.#state = State.failed;
  }
}
