import {
  Code,
  decodeString,
  detached,
  escapeEnd,
  isMistakenFor,
  isSpelledOtherwise,
  scalarEnd,
  skipWhitespace,
  type Span,
} from "./text.ts";

/** The names of the members to find, each with the names to find in its value. */
interface ShapeNames {
  readonly [name: string]: ShapeNames;
}

/** The members of an object to find in a JSON text. Each has a slot: first those of its names, then those of the nested objects. */
export class Shape {
  readonly names: readonly string[];
  readonly children: readonly (Shape | undefined)[];
  readonly firstSlot: number;
  readonly endSlot: number;

  constructor(names: ShapeNames, firstSlot = 0) {
    this.names = Object.keys(names);
    this.firstSlot = firstSlot;
    let endSlot = firstSlot + this.names.length;
    this.children = Object.values(names).map((inner) => {
      if (Object.keys(inner).length === 0) return undefined;
      const shape = new Shape(inner, endSlot);
      endSlot = shape.endSlot;
      return shape;
    });
    this.endSlot = endSlot;
  }

  slotOf(...path: readonly string[]): number {
    const [name = "", ...rest] = path;
    const position = this.names.indexOf(name);
    const slot = rest.length > 0 ? this.children[position]?.slotOf(...rest) : position === -1 ? undefined : this.firstSlot + position;
    if (slot === undefined) throw new Error(`the shape has no ${path.join(".")}`);
    return slot;
  }
}

/** The members of a shape in one JSON text. The last of repeated members counts, as for most parsers (RFC 8259 §4). */
export class Outline {
  readonly text: string;
  readonly hasEscapedName: boolean;
  /** The first name in the outermost object that the shape does not have. */
  readonly unknownName: string | undefined;
  /** True if no member is repeated, and no parser takes another name for one of the shape. */
  readonly isUnambiguous: boolean;
  /** Start and end of each value, by slot; -1 for an absent member. It ends with the last slot that was used. */
  readonly #places: readonly number[];
  readonly #doubles: ReadonlyMap<number, string> | undefined;

  constructor(
    text: string,
    places: readonly number[],
    doubles: ReadonlyMap<number, string> | undefined,
    hasEscapedName: boolean,
    unknownName: string | undefined,
  ) {
    this.text = text;
    this.hasEscapedName = hasEscapedName;
    this.unknownName = unknownName;
    this.isUnambiguous = doubles === undefined;
    this.#places = places;
    this.#doubles = doubles;
  }

  has(slot: number): boolean {
    return this.start(slot) !== -1;
  }

  /** -1 for an absent member. */
  start(slot: number): number {
    return this.#places[2 * slot] ?? -1;
  }

  end(slot: number): number {
    return this.#places[2 * slot + 1] ?? -1;
  }

  span(slot: number): Span | undefined {
    return this.has(slot) ? { start: this.start(slot), end: this.end(slot) } : undefined;
  }

  textAt(slot: number): string | undefined {
    const start = this.start(slot);
    return start === -1 ? undefined : this.text.slice(start, this.end(slot));
  }

  /** Does not keep the whole text in memory, unlike `textAt`. */
  copyAt(slot: number): string | undefined {
    const value = this.textAt(slot);
    return value === undefined ? undefined : detached(value, this.text);
  }

  /** The first character of a value shows its type. Empty for an absent member. */
  firstAt(slot: number): string {
    return this.text.charAt(this.start(slot));
  }

  stringAt(slot: number): string | undefined {
    if (this.firstAt(slot) !== '"') return undefined;
    return detached(decodeString(this.text, this.start(slot), this.end(slot)), this.text);
  }

  numberAt(slot: number): number | undefined {
    const first = this.firstAt(slot);
    return first === "-" || (first >= "0" && first <= "9") ? Number(this.textAt(slot)) : undefined;
  }

  /** Returns the name of a repeated member, or a name that some parsers take for that of the slot, because they ignore case. */
  doubleAt(slot: number): string | undefined {
    return this.#doubles?.get(slot);
  }
}

const State = { value: 0, firstElement: 1, firstName: 2, name: 3, comma: 4, inString: 5, inName: 6, colon: 7 } as const;
type State = (typeof State)[keyof typeof State];

// oxlint-disable-next-line no-control-regex -- a class of all other characters takes half as long again
const CONTROL = /[\0-\u001f]/g;
/** For longer runs, a search for the next special character is faster than a loop. */
const SHORT_RUN = 24;

/**
 * Finds the members of a shape in a JSON text. It accepts the same texts as `JSON.parse` (RFC 8259) but builds no values, does not recurse,
 * and can pause at any point. `begin` reuses it for another text.
 */
export class JsonScanner {
  isArray = false;
  isObject = false;
  isDone = false;
  /** To be read when `isDone`. */
  isValid = false;
  #text = "";
  #state: State = State.value;
  #index = 0;

  #depth = 0;
  #isInObject = false;
  /** The types of all open containers, 16 in a number, because a peer chooses how many there are. */
  readonly #objects: number[] = [0];

  #stringStart = 0;
  #isEscaped = false;
  // The position of the next such character, or the end of the step if it has none; -1 before the first search of a step.
  #quoteAt = -1;
  #backslashAt = -1;
  #controlAt = -1;

  /** Start and end of each value, by slot; -1 for an absent member. */
  readonly #places: number[] = [];
  #placeCount = 0;
  /** By slot: the name of a repeated member, or one that differs in case only. */
  #doubles: Map<number, string> | undefined;
  #hasEscapedName = false;
  #unknownName: string | undefined;
  /** The shapes of the open containers that have one, outermost first, and the slot of the member being read in each; -1 for another one. */
  readonly #shapes: Shape[] = [];
  readonly #slots: number[] = [];
  #shapeCount = 0;
  /** The shape of the next value, if that is an object. */
  #next: Shape | undefined;

  constructor(text: string, shape: Shape) {
    this.begin(text, shape);
  }

  begin(text: string, shape: Shape): void {
    this.isArray = this.isObject = this.isDone = this.isValid = this.#hasEscapedName = false;
    this.#text = text;
    this.#state = State.value;
    this.#index = this.#depth = this.#shapeCount = 0;
    this.#doubles = undefined;
    this.#unknownName = undefined;
    this.#next = shape;
    this.#places.fill(-1, 0, this.#placeCount);
    this.#placeCount = 0;
    while (this.#places.length < 2 * shape.endSlot) this.#places.push(-1);
  }

  get outline(): Outline {
    const places = this.#places.slice(0, this.#placeCount);
    return new Outline(this.#text, places, this.#doubles, this.#hasEscapedName, this.#unknownName);
  }

  /** The position at which the text stops being JSON. A malformed string does so at its start. */
  get failedAt(): number {
    return this.#state === State.inString || this.#state === State.inName ? this.#stringStart : this.#index;
  }

  /** Continues for about `length` UTF-16 units. */
  advance(length = Infinity): void {
    const text = this.#text;
    const end = text.length;
    const stop = Math.min(end, this.#index + length);
    this.#quoteAt = this.#backslashAt = this.#controlAt = -1;
    while (!this.isDone) {
      if (this.#index >= stop && stop < end) return;
      if (this.#state === State.inString || this.#state === State.inName) {
        this.#scanString(stop);
        continue;
      }
      let code = text.charCodeAt(this.#index);
      if (code <= Code.space) {
        this.#index = skipWhitespace(text, this.#index, stop);
        if (this.#index === stop && stop < end) return;
        code = text.charCodeAt(this.#index);
      }
      if (this.#index >= end) {
        this.isDone = true;
        this.isValid = this.#state === State.comma && this.#depth === 0;
      } else if (code === Code.closeBrace || code === Code.closeBracket) this.#close(code === Code.closeBrace);
      else if (this.#state === State.comma) {
        if (code !== Code.comma || this.#depth === 0) return this.#fail();
        this.#index++;
        this.#state = this.#isInObject ? State.name : State.value;
      } else if (this.#state === State.name || this.#state === State.firstName) {
        if (code !== Code.quote) return this.#fail();
        this.#stringStart = this.#index++;
        this.#isEscaped = false;
        this.#state = State.inName;
      } else if (this.#state === State.colon) {
        if (code !== Code.colon) return this.#fail();
        this.#index++;
        this.#state = State.value;
      } else this.#beginValue(code);
    }
  }

  #beginValue(code: number): void {
    const index = this.#index;
    const depth = this.#depth;
    const shape = depth === this.#shapeCount ? this.#next : undefined;
    this.#next = undefined;
    const slot = depth > 0 && depth === this.#shapeCount ? (this.#slots[depth - 1] ?? -1) : -1;
    // A value that is cut off is empty.
    if (slot !== -1) {
      this.#places[2 * slot] = this.#places[2 * slot + 1] = index;
      this.#placeCount = Math.max(this.#placeCount, 2 * slot + 2);
    }
    if (code === Code.quote) {
      this.#stringStart = this.#index++;
      this.#state = State.inString;
    } else if (code === Code.openBrace || code === Code.openBracket) {
      const isObject = code === Code.openBrace;
      if (depth === 0) [this.isObject, this.isArray] = [isObject, !isObject];
      if (isObject && shape !== undefined) {
        this.#shapes[depth] = shape;
        this.#slots[depth] = -1;
        this.#shapeCount++;
      }
      const word = depth >> 4;
      const bit = 1 << (depth & 15);
      const objects = this.#objects[word] ?? 0;
      this.#objects[word] = isObject ? objects | bit : objects & ~bit;
      this.#isInObject = isObject;
      this.#depth++;
      this.#index++;
      this.#state = isObject ? State.firstName : State.firstElement;
    } else {
      const end = scalarEnd(this.#text, index);
      if (end === -1) return this.#fail();
      this.#index = end;
      this.#endValue();
    }
  }

  #close(isObject: boolean): void {
    const isComplete = this.#state === State.comma || this.#state === (isObject ? State.firstName : State.firstElement);
    if (!isComplete || this.#depth === 0 || this.#isInObject !== isObject) return this.#fail();
    this.#index++;
    const depth = --this.#depth;
    this.#isInObject = ((this.#objects[(depth - 1) >> 4] ?? 0) & (1 << ((depth - 1) & 15))) !== 0;
    if (depth < this.#shapeCount) this.#shapeCount = depth;
    this.#endValue();
  }

  #endValue(): void {
    this.#state = State.comma;
    const depth = this.#depth;
    if (depth === 0) return;
    const slot = depth === this.#shapeCount ? (this.#slots[depth - 1] ?? -1) : -1;
    if (slot !== -1) this.#places[2 * slot + 1] = this.#index;
  }

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
    const start = this.#stringStart;
    this.#state = State.colon;
    // White space before the colon is rare and may be long, so `advance` skips it.
    if (this.#text.charCodeAt(end) === Code.colon) {
      this.#index++;
      this.#state = State.value;
    }
    this.#hasEscapedName ||= this.#isEscaped;
    const depth = this.#depth;
    const shape = depth === this.#shapeCount ? this.#shapes[depth - 1] : undefined;
    if (shape === undefined) return;
    const position = this.#matchName(shape, start, end);
    const slot = position === -1 ? -1 : shape.firstSlot + position;
    this.#slots[depth - 1] = slot;
    if (slot === -1) {
      if (depth === 1) this.#unknownName ??= detached(decodeString(this.#text, start, end), this.#text);
      return;
    }
    const inner = shape.children[position];
    if (this.#places[2 * slot] !== -1) {
      (this.#doubles ??= new Map()).set(slot, shape.names[position] ?? "");
      // The last of repeated members counts, so the inner members of the previous one are discarded.
      if (inner !== undefined) this.#places.fill(-1, 2 * inner.firstSlot, 2 * inner.endSlot);
    }
    this.#next = inner;
  }

  /** @returns -1 if the shape does not have the name. */
  #matchName({ names, firstSlot }: Shape, start: number, end: number): number {
    const text = this.#text;
    const length = end - start - 2;
    const key = this.#isEscaped ? decodeString(text, start, end) : undefined;
    for (let position = 0; position < names.length; position++) {
      const name = names[position] ?? "";
      if (key === undefined ? name.length === length && text.startsWith(name, start + 1) : key === name) return position;
      if (key === undefined ? name.length !== length || !isSpelledOtherwise(text, start + 1, name) : !isMistakenFor(key, name)) continue;
      this.#doubles ??= new Map();
      const slot = firstSlot + position;
      if (!this.#doubles.has(slot)) this.#doubles.set(slot, key ?? text.slice(start + 1, end - 1));
    }
    return -1;
  }

  #fail(): void {
    this.isDone = true;
  }
}
