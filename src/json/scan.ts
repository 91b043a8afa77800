import { isMistakenFor } from "./folded-names.ts";
import { Nesting } from "./nesting.ts";
import { Outline, type Shape } from "./outline.ts";
import { decodeString, type Span } from "./strings.ts";
import { Code, escapeEnd, literalEnd, numberEnd, skipWhitespace } from "./tokens.ts";

/** The token expected next. */
const State = { value: 0, firstElement: 1, firstName: 2, name: 3, comma: 4, inString: 5, inName: 6, colon: 7, done: 8, failed: 9 } as const;
type State = (typeof State)[keyof typeof State];

/** The end of a run of characters that stand for themselves: a quote, a backslash, a control character. */
const SPECIAL = /[^ !#-[\]-\uffff]/g;
/** For so many characters a loop is faster than the search for the next special one. */
const SHORT_RUN = 24;
/** The elements of an array that are located; more are only counted. */
const MAX_ELEMENTS = 1000;

/**
 * Reads one JSON text (RFC 8259) once. It accepts what `JSON.parse` accepts, builds nothing, and records the places of the members of a shape.
 * It keeps one bit for each level of nesting, does not recurse, and can be interrupted at any point.
 */
export class JsonScanner {
  readonly outline: Outline;
  /** The elements of a text that is an array. */
  readonly elements: Span[] = [];
  elementCount = 0;
  readonly #text: string;
  readonly #notesEscapes: boolean;
  #state: State = State.value;
  #index = 0;
  readonly #open = new Nesting();
  /** The shapes of the outermost containers, as far as they have any; then, of each, the slot of the member that is being read. */
  readonly #shapes: Shape[] = [];
  readonly #slots: number[] = [];
  /** The shape of the value that comes next, if that is an object. */
  #next: Shape | undefined;
  #stringStart = 0;
  #isEscaped = false;
  /** The type of the text; known once it has begun. */
  isArray = false;
  isObject = false;

  /** @param notesEscapes whether the places of names with a backslash are kept: there may be millions. */
  constructor(text: string, shape: Shape, notesEscapes = true) {
    this.#notesEscapes = notesEscapes;
    this.#text = text;
    this.#next = shape;
    this.outline = new Outline(text, shape.absent);
  }

  get isDone(): boolean {
    return this.#state === State.done || this.#state === State.failed;
  }

  /** Once it is done: whether the text is JSON. */
  get isValid(): boolean {
    return this.#state === State.done;
  }

  /** Reads on for about so many characters. */
  advance(length = Number.POSITIVE_INFINITY): void {
    const text = this.#text;
    const end = text.length;
    const stop = Math.min(end, this.#index + length);
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
        this.#state = this.#state === State.comma && this.#open.depth === 0 ? State.done : State.failed;
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
      else this.#state = State.failed;
      if (this.#index >= stop && stop < end) return;
    }
  }

  #scanComma(code: number): void {
    if (this.#open.depth === 0) this.#state = State.failed;
    else if (code === Code.comma) {
      this.#index++;
      this.#state = this.#open.isObject ? State.name : State.value;
    } else if (code === (this.#open.isObject ? Code.closeBrace : Code.closeBracket)) this.#close();
    else this.#state = State.failed;
  }

  #scanValue(code: number): void {
    this.#beginValue();
    if (code === Code.quote) {
      this.#index++;
      this.#state = State.inString;
    } else if (code === Code.openBrace) {
      if (this.#next !== undefined && this.#shapes.length === this.#open.depth) {
        this.#shapes.push(this.#next);
        this.#slots.push(-1);
      }
      if (this.#open.depth === 0) this.isObject = true;
      this.#open.open(true);
      this.#index++;
      this.#state = State.firstName;
    } else if (code === Code.openBracket) {
      if (this.#open.depth === 0) this.isArray = true;
      this.#open.open(false);
      this.#index++;
      this.#state = State.firstElement;
    } else if (code === Code.minus || (code >= Code.zero && code <= Code.nine)) this.#endScalar(numberEnd(this.#text, this.#index));
    else this.#endScalar(literalEnd(this.#text, this.#index));
    this.#next = undefined;
  }

  #close(): void {
    if (this.#shapes.length === this.#open.depth) {
      this.#shapes.pop();
      this.#slots.pop();
    }
    this.#open.close();
    this.#index++;
    this.#endValue();
  }

  #beginValue(): void {
    const depth = this.#open.depth;
    if (depth > 0 && depth === this.#shapes.length) {
      const slot = this.#slots[depth - 1] ?? -1;
      if (slot !== -1) this.outline.starts[slot] = this.#index;
    } else if (depth === 1 && this.isArray && ++this.elementCount <= MAX_ELEMENTS) {
      this.elements.push({ start: this.#index, end: this.#index });
    }
  }

  #endValue(): void {
    this.#state = State.comma;
    const depth = this.#open.depth;
    if (depth > 0 && depth === this.#shapes.length) {
      const slot = this.#slots[depth - 1] ?? -1;
      if (slot !== -1) this.outline.ends[slot] = this.#index;
    } else if (depth === 1 && this.isArray && this.elementCount <= MAX_ELEMENTS) {
      const start = this.elements.at(-1)?.start ?? 0;
      this.elements[this.elements.length - 1] = { start, end: this.#index };
    }
  }

  /** Reads on within a string, up to its end or a little behind `stop`. */
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
        SPECIAL.lastIndex = index;
        index = SPECIAL.test(text) ? SPECIAL.lastIndex - 1 : end;
        code = text.charCodeAt(index);
      }
      if (index >= end || code < Code.space) {
        this.#state = State.failed;
        return;
      }
      index++;
      if (code === Code.quote) break;
      this.#isEscaped = true;
      // By far the most frequent, in JSON within a string.
      index = text.charCodeAt(index) === Code.quote ? index + 1 : escapeEnd(text, index);
      if (index === -1) {
        this.#state = State.failed;
        return;
      }
      if (index >= stop && stop < end) {
        this.#index = index;
        return;
      }
    }
    this.#index = index;
    if (this.#state === State.inString) this.#endValue();
    else this.#endName();
  }

  #endName(): void {
    const text = this.#text;
    const [start, end] = [this.#stringStart, this.#index];
    if (this.#isEscaped && this.#notesEscapes) this.outline.escapedNames.push(start, end);
    const depth = this.#open.depth;
    const shape = depth === this.#shapes.length ? this.#shapes[depth - 1] : undefined;
    if (shape !== undefined) this.#matchName(shape, start, end);
    this.#state = State.colon;
    // White space before the colon is rare, and may be long.
    if (text.charCodeAt(end) === Code.colon) this.#scanColon(Code.colon);
  }

  #scanColon(code: number): void {
    this.#state = code === Code.colon ? State.value : State.failed;
    this.#index++;
  }

  #matchName({ names, slots, children }: Shape, start: number, end: number): void {
    const text = this.#text;
    const decoded = this.#isEscaped ? decodeString(text, start, end) : undefined;
    const length = end - start - 2;
    this.#slots[this.#open.depth - 1] = -1;
    for (let position = 0; position < names.length; position++) {
      const name = names[position] ?? "";
      if (decoded === undefined && name.length !== length) continue;
      const slot = slots[position] ?? 0;
      if (decoded === undefined ? text.startsWith(name, start + 1) : decoded === name) {
        if (this.outline.has(slot)) this.#repeat(slot, children[position]);
        this.#slots[this.#open.depth - 1] = slot;
        this.#next = children[position];
        return;
      }
      const key = decoded ?? text.slice(start + 1, end - 1);
      if (isMistakenFor(key, name)) this.outline.recordOtherCase(slot, key);
    }
  }

  /** Of a repeated member the last one counts: nothing is left of what was within the one before. */
  #repeat(slot: number, inner: Shape | undefined): void {
    this.outline.recordRepeated(slot);
    const first = inner?.slots[0];
    if (inner !== undefined && first !== undefined) this.outline.starts.fill(-1, first, first + inner.slotCount);
  }

  /** @param end -1 for a value that is not valid. */
  #endScalar(end: number): void {
    this.#index = end;
    if (end === -1) this.#state = State.failed;
    else this.#endValue();
  }
}
