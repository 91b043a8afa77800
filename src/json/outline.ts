import { decodeString, detached, type Span } from "./strings.ts";
import { isNumberStart } from "./tokens.ts";

/** Names of members, each with those below it that are of interest too. */
export interface ShapeNames {
  readonly [name: string]: ShapeNames;
}

/** One bit per slot. */
const MAX_SLOTS = 30;

/** Which members of a JSON text are to be found: those of one object, each in a slot of its own. */
export class Shape {
  readonly names: readonly string[];
  readonly slots: readonly number[];
  readonly children: readonly (Shape | undefined)[];
  /** The number of slots of this object and all below it. */
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

  /** @param path one name a level, as in `params._meta`. */
  slotOf(path: string): number {
    const [name = "", ...rest] = path.split(".");
    const position = this.names.indexOf(name);
    const slot = rest.length === 0 ? this.slots[position] : this.children[position]?.slotOf(rest.join("."));
    if (slot === undefined) throw new Error(`the shape has no ${path}`);
    return slot;
  }
}

/** The members that a scan has found. */
export interface Found {
  /** One bit for each slot. */
  readonly present: number;
  readonly repeated: number;
  /** Start and end of each member that is present, in the order of their slots. */
  readonly places: readonly number[];
  readonly escapedNames: readonly number[];
  readonly otherCases: ReadonlyMap<number, string> | undefined;
}

/**
 * The places of the members of a shape in one JSON text. Of a name that is repeated, the last occurrence counts, as for most readers
 * (RFC 8259 §4); that it is repeated is known.
 */
export class Outline {
  readonly text: string;
  /** Start and end of each name, at any depth, that is spelled with a backslash; the quotes are included. */
  readonly escapedNames: readonly number[];
  readonly #present: number;
  readonly #places: readonly number[];
  readonly #repeated: number;
  readonly #otherCases: ReadonlyMap<number, string> | undefined;

  constructor(text: string, { present, places, escapedNames, repeated, otherCases }: Found) {
    this.text = text;
    this.escapedNames = escapedNames;
    this.#present = present;
    this.#places = places;
    this.#repeated = repeated;
    this.#otherCases = otherCases;
  }

  has(slot: number): boolean {
    return (this.#present & (1 << slot)) !== 0;
  }

  /** Where a value begins; -1 for a member that is absent. */
  start(slot: number): number {
    return this.has(slot) ? (this.#places[this.#position(slot)] ?? -1) : -1;
  }

  /** Where a value ends; -1 for a member that is absent. */
  end(slot: number): number {
    return this.has(slot) ? (this.#places[this.#position(slot) + 1] ?? -1) : -1;
  }

  /** The place of a value; undefined for a member that is absent. */
  span(slot: number): Span | undefined {
    return this.has(slot) ? { start: this.start(slot), end: this.end(slot) } : undefined;
  }

  /** The value as it is spelled; undefined for a member that is absent. */
  textAt(slot: number): string | undefined {
    return this.has(slot) ? this.text.slice(this.start(slot), this.end(slot)) : undefined;
  }

  /** As `textAt`, for what outlasts the text. */
  copyAt(slot: number): string | undefined {
    const value = this.textAt(slot);
    return value === undefined ? undefined : detached(value, this.text);
  }

  /** The first character of a value, which tells its type; empty for a member that is absent. */
  firstAt(slot: number): string {
    return this.text.charAt(this.start(slot));
  }

  isObject(slot: number): boolean {
    return this.firstAt(slot) === "{";
  }

  /** The value if it is a string. */
  stringAt(slot: number): string | undefined {
    if (this.firstAt(slot) !== '"') return undefined;
    return detached(decodeString(this.text, this.start(slot), this.end(slot)), this.text);
  }

  /** True if the value is this string, in any spelling. */
  isString(slot: number, value: string): boolean {
    const start = this.start(slot);
    const isPlain = this.end(slot) - start === value.length + 2 && this.text.startsWith(value, start + 1);
    return isPlain ? this.firstAt(slot) === '"' : this.stringAt(slot) === value;
  }

  /** The value if it is a number. */
  numberAt(slot: number): number | undefined {
    return isNumberStart(this.text.charCodeAt(this.start(slot))) ? Number(this.textAt(slot)) : undefined;
  }

  /** True if no member is repeated, and no name is mistaken by some readers for one of the shape. */
  get isUnambiguous(): boolean {
    return this.#repeated === 0 && this.#otherCases === undefined;
  }

  isRepeated(slot: number): boolean {
    return (this.#repeated & (1 << slot)) !== 0;
  }

  /** A name that some readers would take for that of the slot, since they do not look at case; undefined without one. */
  otherCaseAt(slot: number): string | undefined {
    return this.#otherCases?.get(slot);
  }

  /** Twice the number of members in lower slots. */
  #position(slot: number): number {
    return 2 * countBits(this.#present & ((1 << slot) - 1));
  }
}

/** Of 32 bits, two, four and eight at a time. */
function countBits(bits: number): number {
  const pairs = bits - ((bits >>> 1) & 0x55555555);
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333);
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}
