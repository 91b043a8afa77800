import { isMistakenFor, isSpelledOtherwise } from "./folded-names.ts";
import { Outline, type Shape } from "./outline.ts";
import { decodeString } from "./strings.ts";

const NO_NAMES: readonly number[] = [];

/**
 * Records the places of the members of a shape while a text is scanned. Its arrays are reused from text to text, to keep garbage collection
 * small.
 */
export class OutlineBuilder {
  #text = "";
  #notesEscapes = true;
  /** By slot. */
  readonly #starts: number[] = [];
  readonly #ends: number[] = [];
  /** One bit for each slot. */
  #present = 0;
  #repeated = 0;
  #otherCases: Map<number, string> | undefined;
  #escapedNames: number[] | undefined;
  /** The shapes of the outermost containers, as far as they have any; then, of each, the slot of the member that is being read. */
  readonly #shapes: Shape[] = [];
  readonly #slots: number[] = [];
  #shapeCount = 0;
  /** The shape of the value that comes next, if that is an object. */
  #next: Shape | undefined;
  readonly #places: number[] = [];

  /** @param notesEscapes whether the places of names with a backslash are kept: there may be millions. */
  begin(text: string, shape: Shape, notesEscapes: boolean): void {
    this.#text = text;
    this.#notesEscapes = notesEscapes;
    this.#next = shape;
    this.#present = this.#repeated = this.#shapeCount = 0;
    this.#otherCases = undefined;
    this.#escapedNames = undefined;
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

  /** A name of a member, from quote to quote, in the innermost of `depth` containers. */
  endName(start: number, end: number, isEscaped: boolean, depth: number): void {
    if (isEscaped && this.#notesEscapes) (this.#escapedNames ??= []).push(start, end);
    if (depth !== this.#shapeCount) return;
    this.#slots[depth - 1] = -1;
    const shape = this.#shapes[depth - 1];
    if (shape === undefined) return;
    if (isEscaped) this.#matchDecoded(shape, decodeString(this.#text, start, end));
    else this.#match(shape, start + 1, end - 1);
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
      // Of a repeated member the last one counts: nothing is left of what was within the one before.
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
