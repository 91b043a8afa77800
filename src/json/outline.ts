import { decodeString, detached, type Span } from "./strings.ts";

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
  /** -1 for each slot. */
  readonly absent: readonly number[];

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
    this.absent = Array.from({ length: this.slotCount }, () => -1);
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

/**
 * The places of the members of a shape in one JSON text. Of a name that is repeated, the last occurrence counts, as for most readers
 * (RFC 8259 §4); that it is repeated is known.
 */
export class Outline {
  readonly text: string;
  /** By slot; -1 for a member that is absent. */
  readonly starts: number[];
  readonly ends: number[];
  /** Start and end of each name, at any depth, that is spelled with a backslash; the quotes are included. */
  readonly escapedNames: number[] = [];
  #repeated = 0;
  #otherCases: Map<number, string> | undefined;

  /** @param absent -1 for each slot. */
  constructor(text: string, absent: readonly number[]) {
    this.text = text;
    this.starts = absent.slice();
    this.ends = absent.slice();
  }

  has(slot: number): boolean {
    return this.starts[slot] !== -1;
  }

  /** The place of a value; undefined for a member that is absent. */
  span(slot: number): Span | undefined {
    const start = this.starts[slot] ?? -1;
    return start === -1 ? undefined : { start, end: this.ends[slot] ?? start };
  }

  /** The value as it is spelled; undefined for a member that is absent. */
  textAt(slot: number): string | undefined {
    const start = this.starts[slot] ?? -1;
    return start === -1 ? undefined : this.text.slice(start, this.ends[slot]);
  }

  /** As `textAt`, for what outlasts the text. */
  copyAt(slot: number): string | undefined {
    const value = this.textAt(slot);
    return value === undefined ? undefined : detached(value, this.text);
  }

  /** The first character of a value, which tells its type; empty for a member that is absent. */
  firstAt(slot: number): string {
    return this.text.charAt(this.starts[slot] ?? -1);
  }

  isObject(slot: number): boolean {
    return this.firstAt(slot) === "{";
  }

  /** The value if it is a string. */
  stringAt(slot: number): string | undefined {
    if (this.firstAt(slot) !== '"') return undefined;
    return detached(decodeString(this.text, this.starts[slot] ?? 0, this.ends[slot] ?? 0), this.text);
  }

  /** The value if it is a number. */
  numberAt(slot: number): number | undefined {
    return /^[-\d]/.test(this.firstAt(slot)) ? Number(this.textAt(slot)) : undefined;
  }

  isRepeated(slot: number): boolean {
    return (this.#repeated & (1 << slot)) !== 0;
  }

  /** A name that some readers would take for that of the slot, since they do not look at case; undefined without one. */
  otherCaseAt(slot: number): string | undefined {
    return this.#otherCases?.get(slot);
  }

  /** For the scanner. */
  recordRepeated(slot: number): void {
    this.#repeated |= 1 << slot;
  }

  /** For the scanner. */
  recordOtherCase(slot: number, name: string): void {
    this.#otherCases ??= new Map();
    if (!this.#otherCases.has(slot)) this.#otherCases.set(slot, name);
  }
}
