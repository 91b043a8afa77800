import {
  Code,
  decodeString,
  detached,
  escapeEnd,
  isMistakenFor,
  isNumberStart,
  isSpelledOtherwise,
  literalEnd,
  numberEnd,
  skipWhitespace,
  type Span,
} from "./text.ts";

/** The names of the members to find, each with the names to find in its value. */
interface ShapeNames {
  readonly [name: string]: ShapeNames;
}

/** One bit per slot, without the sign. */
const MAX_SLOTS = 31;

/** The members of an object to find in a JSON text, each with its own slot. */
export class Shape {
  readonly names: readonly string[];
  readonly slots: readonly number[];
  readonly children: readonly (Shape | undefined)[];
  /** The number of slots of this object and all nested ones. */
  readonly slotCount: number;
  /** The bits of these slots. */
  readonly slotMask: number;

  constructor(names: ShapeNames, firstSlot = 0) {
    this.names = Object.keys(names);
    let nextSlot = firstSlot;
    this.slots = this.names.map(() => nextSlot++);
    this.children = Object.values(names).map((inner) => {
      if (Object.keys(inner).length === 0) return undefined;
      const shape = new Shape(inner, nextSlot);
      nextSlot += shape.slotCount;
      return shape;
    });
    this.slotCount = nextSlot - firstSlot;
    if (this.slotCount > MAX_SLOTS) throw new Error(`a shape has at most ${MAX_SLOTS} slots`);
    this.slotMask = ((1 << this.slotCount) - 1) << firstSlot;
  }

  /** Returns the slot of a member. @param path the names, one for each level. */
  slotOf(...path: readonly string[]): number {
    const [name = "", ...rest] = path;
    const position = this.names.indexOf(name);
    const slot = rest.length === 0 ? this.slots[position] : this.children[position]?.slotOf(...rest);
    if (slot === undefined) throw new Error(`the shape has no ${path.join(".")}`);
    return slot;
  }
}

/** The result of a scan. */
interface Found {
  /** One bit per slot. */
  readonly present: number;
  readonly repeated: number;
  /** Start and end of each present value, in the order of slots. */
  readonly places: readonly number[];
  readonly escapedNames: readonly number[];
  readonly otherCases: ReadonlyMap<number, string> | undefined;
  /** The first name in the outermost object that the shape does not have, with its quotes. */
  readonly unknownName: Span | undefined;
}

/**
 * The positions of the members of a shape in one JSON text. If a name is repeated, the last occurrence counts, as for most parsers
 * (RFC 8259 §4), and `isRepeated` is true.
 */
export class Outline {
  readonly text: string;
  /** Start and end of each name that has a backslash, at any depth, including the quotes. */
  readonly escapedNames: readonly number[];
  readonly #present: number;
  readonly #places: readonly number[];
  readonly #repeated: number;
  readonly #otherCases: ReadonlyMap<number, string> | undefined;
  readonly #unknownName: Span | undefined;

  constructor(text: string, { present, places, escapedNames, repeated, otherCases, unknownName }: Found) {
    this.text = text;
    this.escapedNames = escapedNames;
    this.#present = present;
    this.#places = places;
    this.#repeated = repeated;
    this.#otherCases = otherCases;
    this.#unknownName = unknownName;
  }

  has(slot: number): boolean {
    return (this.#present & (1 << slot)) !== 0;
  }

  /** Returns the start of a value; -1 for an absent member. */
  start(slot: number): number {
    return this.has(slot) ? (this.#places[this.#position(slot)] ?? -1) : -1;
  }

  /** Returns the end of a value; -1 for an absent member. */
  end(slot: number): number {
    return this.has(slot) ? (this.#places[this.#position(slot) + 1] ?? -1) : -1;
  }

  /** Returns the span of a value; undefined for an absent member. */
  span(slot: number): Span | undefined {
    return this.has(slot) ? { start: this.start(slot), end: this.end(slot) } : undefined;
  }

  /** Returns the JSON text of a value; undefined for an absent member. */
  textAt(slot: number): string | undefined {
    return this.has(slot) ? this.text.slice(this.start(slot), this.end(slot)) : undefined;
  }

  /** Returns the same as `textAt`, but does not keep the whole text in memory. */
  copyAt(slot: number): string | undefined {
    const value = this.textAt(slot);
    return value === undefined ? undefined : detached(value, this.text);
  }

  /** Returns the first character of a value, which shows its type; empty for an absent member. */
  firstAt(slot: number): string {
    return this.text.charAt(this.start(slot));
  }

  isObject(slot: number): boolean {
    return this.firstAt(slot) === "{";
  }

  /** Returns the value if it is a string. */
  stringAt(slot: number): string | undefined {
    if (this.firstAt(slot) !== '"') return undefined;
    return detached(decodeString(this.text, this.start(slot), this.end(slot)), this.text);
  }

  /** True if the value is this string, with or without escapes. */
  isString(slot: number, value: string): boolean {
    const start = this.start(slot);
    const isPlain = this.end(slot) - start === value.length + 2 && this.text.startsWith(value, start + 1);
    return isPlain ? this.firstAt(slot) === '"' : this.stringAt(slot) === value;
  }

  /** Returns the value if it is a number. */
  numberAt(slot: number): number | undefined {
    return isNumberStart(this.text.charCodeAt(this.start(slot))) ? Number(this.textAt(slot)) : undefined;
  }

  /** The first name in the outermost object that the shape does not have; undefined if there is none. */
  get unknownName(): string | undefined {
    return this.#unknownName && detached(decodeString(this.text, this.#unknownName.start, this.#unknownName.end), this.text);
  }

  /** True if no member is repeated, and no parser takes another name for one of the shape. */
  get isUnambiguous(): boolean {
    return this.#repeated === 0 && this.#otherCases === undefined;
  }

  isRepeated(slot: number): boolean {
    return (this.#repeated & (1 << slot)) !== 0;
  }

  /** Returns a name that some parsers take for that of the slot, because they ignore case. */
  otherCaseAt(slot: number): string | undefined {
    return this.#otherCases?.get(slot);
  }

  /** Twice the number of members in lower slots. */
  #position(slot: number): number {
    return 2 * countBits(this.#present & ((1 << slot) - 1));
  }
}

/** Counts the 1 bits of 32, in groups of two, four and eight. */
function countBits(bits: number): number {
  const pairs = bits - ((bits >>> 1) & 0x55555555);
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333);
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

const NO_NAMES: readonly number[] = [];

/**
 * Records the positions of the members of a shape while a text is scanned. Its arrays are reused for the next text, to reduce garbage
 * collection.
 */
class OutlineBuilder {
  #text = "";
  #notesEscapes = true;
  /** Start of each value, by slot. */
  readonly #starts: number[] = [];
  readonly #ends: number[] = [];
  /** One bit per slot. */
  #present = 0;
  #repeated = 0;
  #otherCases: Map<number, string> | undefined;
  #escapedNames: number[] | undefined;
  #unknownName: Span | undefined;
  /** The shapes of the open containers that have one, outermost first, and the slot of the member being read in each. */
  readonly #shapes: Shape[] = [];
  readonly #slots: number[] = [];
  #shapeCount = 0;
  /** The shape of the next value, if that is an object. */
  #next: Shape | undefined;
  readonly #places: number[] = [];

  /** @param notesEscapes true to record the positions of names with a backslash, of which there may be millions. */
  begin(text: string, shape: Shape, notesEscapes: boolean): void {
    this.#text = text;
    this.#notesEscapes = notesEscapes;
    this.#next = shape;
    this.#present = this.#repeated = this.#shapeCount = 0;
    this.#otherCases = undefined;
    this.#escapedNames = undefined;
    this.#unknownName = undefined;
  }

  /** @param depth the number of containers around the value. */
  beginValue(index: number, depth: number, isObject: boolean): void {
    const count = this.#shapeCount;
    if (depth !== count) {
      this.#next = undefined;
      return;
    }
    if (depth > 0) {
      const slot = this.#slots[depth - 1] ?? -1;
      if (slot !== -1) {
        this.#starts[slot] = index;
        // A value that is cut off is empty.
        this.#ends[slot] = index;
        this.#present |= 1 << slot;
      }
    }
    if (this.#next === undefined) return;
    if (isObject) {
      this.#shapes[count] = this.#next;
      this.#slots[count] = -1;
      this.#shapeCount++;
    }
    this.#next = undefined;
  }

  /** @param depth the number of containers around the value that has ended. */
  endValue(index: number, depth: number): void {
    if (depth < this.#shapeCount) this.#shapeCount = depth;
    if (depth === 0 || depth !== this.#shapeCount) return;
    const slot = this.#slots[depth - 1] ?? -1;
    if (slot !== -1) this.#ends[slot] = index;
  }

  /** Records a member's name, including its quotes. @param depth the number of containers around it. */
  endName(start: number, end: number, isEscaped: boolean, depth: number): void {
    if (isEscaped && this.#notesEscapes) (this.#escapedNames ??= []).push(start, end);
    if (depth !== this.#shapeCount) return;
    this.#slots[depth - 1] = -1;
    const shape = this.#shapes[depth - 1];
    if (shape === undefined) return;
    if (isEscaped) this.#matchDecoded(shape, decodeString(this.#text, start, end));
    else this.#match(shape, start + 1, end - 1);
    if (depth === 1 && this.#slots[0] === -1) this.#unknownName ??= { start, end };
  }

  build(): Outline {
    const places = this.#places;
    let count = 0;
    for (let rest = this.#present; rest !== 0; rest &= rest - 1) {
      const slot = 31 - Math.clz32(rest & -rest);
      places[count++] = this.#starts[slot] ?? 0;
      places[count++] = this.#ends[slot] ?? 0;
    }
    return new Outline(this.#text, {
      present: this.#present,
      places: places.slice(0, count),
      escapedNames: this.#escapedNames ?? NO_NAMES,
      repeated: this.#repeated,
      otherCases: this.#otherCases,
      unknownName: this.#unknownName,
    });
  }

  #match(shape: Shape, start: number, end: number): void {
    const text = this.#text;
    const { names } = shape;
    const length = end - start;
    for (let position = 0; position < names.length; position++) {
      const name = names[position] ?? "";
      if (name.length !== length) continue;
      if (text.startsWith(name, start)) return this.#enter(shape, position);
      if (isSpelledOtherwise(text, start, name)) this.#recordOtherCase(shape, position, text.slice(start, end));
    }
  }

  #matchDecoded(shape: Shape, key: string): void {
    for (let position = 0; position < shape.names.length; position++) {
      const name = shape.names[position] ?? "";
      if (key === name) return this.#enter(shape, position);
      if (isMistakenFor(key, name)) this.#recordOtherCase(shape, position, key);
    }
  }

  #enter({ slots, children }: Shape, position: number): void {
    const slot = slots[position] ?? 0;
    const inner = children[position];
    if ((this.#present & (1 << slot)) !== 0) {
      this.#repeated |= 1 << slot;
      // The last of repeated members counts, so the inner members of the previous one are discarded.
      if (inner !== undefined) this.#present &= ~inner.slotMask;
    }
    this.#slots[this.#shapeCount - 1] = slot;
    this.#next = inner;
  }

  #recordOtherCase({ slots }: Shape, position: number, key: string): void {
    const slot = slots[position] ?? 0;
    this.#otherCases ??= new Map();
    if (!this.#otherCases.has(slot)) this.#otherCases.set(slot, key);
  }
}

const BITS = 16;

/** The open containers, from outermost to innermost. Each takes one bit, because a peer chooses how many there are. */
class Nesting {
  depth = 0;
  readonly #objects: number[] = [0];

  clear(): void {
    this.depth = 0;
  }

  open(isObject: boolean): void {
    const depth = this.depth++;
    const word = Math.floor(depth / BITS);
    const bit = 1 << (depth % BITS);
    if (word === this.#objects.length) this.#objects.push(0);
    const bits = this.#objects[word] ?? 0;
    this.#objects[word] = isObject ? bits | bit : bits & ~bit;
  }

  close(): void {
    this.depth--;
  }

  /** True if the innermost container is an object; false if it is an array. */
  get isObject(): boolean {
    const depth = this.depth - 1;
    return ((this.#objects[Math.floor(depth / BITS)] ?? 0) & (1 << (depth % BITS))) !== 0;
  }
}

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
