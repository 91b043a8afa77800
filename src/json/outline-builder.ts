import { isMistakenFor, isSpelledOtherwise } from "./names.ts";
import { Outline, type Shape } from "./outline.ts";
import { decodeString, type Span } from "./strings.ts";

const NO_NAMES: readonly number[] = [];

/**
 * Records the positions of the members of a shape while a text is scanned. Its arrays are reused for the next text, to reduce garbage
 * collection.
 */
export class OutlineBuilder {
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
