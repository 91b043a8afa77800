import { decodeString, detached, type Span } from "./strings.ts";
import { isNumberStart } from "./tokens.ts";

/** The names of the members to find, each with the names to find in its value. */
export interface ShapeNames {
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
export interface Found {
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
