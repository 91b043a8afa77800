import { Code, decodeString, detached, isMistakenFor, isSpelledOtherwise, SHORT_RUN, skipWhitespace, type Span, walk } from "./text.ts";

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
  hasEscapedName = false;
  /** The first name in the outermost object that the shape does not have. */
  unknownName: string | undefined;
  /** By slot: the name of a repeated member, or one that some parsers take for that of the slot. Undefined if there are none. */
  doubles: Map<number, string> | undefined;
  /** Start and end of each value, by slot; -1 or nothing for an absent member. */
  readonly places: number[] = [];

  constructor(text: string) {
    this.text = text;
  }

  has(slot: number): boolean {
    return this.start(slot) !== -1;
  }

  /** -1 for an absent member. */
  start(slot: number): number {
    return this.places[2 * slot] ?? -1;
  }

  end(slot: number): number {
    return this.places[2 * slot + 1] ?? -1;
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
}

const State = { value: 0, firstElement: 1, firstName: 2, name: 3, comma: 4, inString: 5, inName: 6, colon: 7 } as const;

/** A value that is neither a string nor a container (RFC 8259 §3, §6). */
const SCALAR = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[Ee][+-]?\d+)?/y;
/** The rest of an escape, after its backslash (RFC 8259 §7). */
const ESCAPE = /["\\/bfnrt]|u[\dA-Fa-f]{4}/y;
// oxlint-disable-next-line no-control-regex -- a class of all other characters takes half as long again
const CONTROL = /[\0-\u001f]/g;

const NOTHING = new Outline("");

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
  outline = NOTHING;
  #state: number = State.value;
  #index = 0;

  #depth = 0;
  #isInObject = false;
  /** The types of all open containers, 16 in a number, because a peer chooses how many there are. */
  readonly #objects: number[] = [0];

  #stringStart = 0;
  #isEscaped = false;
  // The position of the next such character; -1 before the first search.
  #quoteAt = -1;
  #backslashAt = -1;
  #controlAt = -1;

  /** The shapes of the open containers that have one, outermost first, and the slot of the member being read in each; -1 for another one. */
  readonly #shapes: Shape[] = [];
  readonly #slots: number[] = [];
  #shapeCount = 0;
  #next: Shape | undefined;

  constructor(text: string, shape: Shape) {
    this.begin(text, shape);
  }

  begin(text: string, shape: Shape): void {
    this.isArray = this.isObject = this.isDone = this.isValid = false;
    this.outline = new Outline(text);
    this.#state = State.value;
    this.#index = this.#depth = this.#shapeCount = 0;
    this.#quoteAt = this.#backslashAt = this.#controlAt = -1;
    this.#next = shape;
  }

  /** The position at which the text stops being JSON. A malformed string does so at its start. */
  get failedAt(): number {
    return this.#state === State.inString || this.#state === State.inName ? this.#stringStart : this.#index;
  }

  /** Continues for about `length` UTF-16 units. */
  advance(length = Infinity): void {
    const { text } = this.outline;
    const end = text.length;
    const stop = Math.min(end, this.#index + length);
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
      const { places } = this.outline;
      places[2 * slot] = places[2 * slot + 1] = index;
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
      SCALAR.lastIndex = index;
      if (!SCALAR.test(this.outline.text)) return this.#fail();
      this.#index = SCALAR.lastIndex;
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
    if (slot !== -1) this.outline.places[2 * slot + 1] = this.#index;
  }

  #scanString(stop: number): void {
    const { text } = this.outline;
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
      if (text.charCodeAt(index) === Code.quote) index++;
      else {
        ESCAPE.lastIndex = index;
        if (!ESCAPE.test(text)) return this.#fail();
        index = ESCAPE.lastIndex;
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

  /** Returns the next special character, or `stop`. A kind is searched again only after its last match, so each part is searched once. */
  #nextSpecial(index: number, stop: number): number {
    const { text } = this.outline;
    if (this.#quoteAt < index) this.#quoteAt = text.indexOf('"', index);
    if (this.#quoteAt === -1) return text.length;
    if (this.#backslashAt < index) {
      const found = text.indexOf("\\", index);
      this.#backslashAt = found === -1 ? text.length : found;
    }
    if (this.#controlAt <= index) {
      const part = text.slice(index, stop);
      CONTROL.lastIndex = 0;
      this.#controlAt = index + (CONTROL.test(part) ? CONTROL.lastIndex - 1 : part.length);
    }
    return Math.min(this.#quoteAt, this.#backslashAt, this.#controlAt);
  }

  #endName(): void {
    const { outline } = this;
    const { text } = outline;
    const end = this.#index;
    const start = this.#stringStart;
    this.#state = State.colon;
    // White space before the colon is rare and may be long, so `advance` skips it.
    if (text.charCodeAt(end) === Code.colon) {
      this.#index++;
      this.#state = State.value;
    }
    outline.hasEscapedName ||= this.#isEscaped;
    const depth = this.#depth;
    const shape = depth === this.#shapeCount ? this.#shapes[depth - 1] : undefined;
    if (shape === undefined) return;
    const match = matchName(shape.names, text, start, end, this.#isEscaped);
    const isSame = match !== undefined && match >= 0;
    this.#slots[depth - 1] = isSame ? shape.firstSlot + match : -1;
    if (!isSame && depth === 1) outline.unknownName ??= detached(decodeString(text, start, end), text);
    if (match === undefined) return;
    const slot = shape.firstSlot + (isSame ? match : ~match);
    if (!isSame) {
      outline.doubles ??= new Map();
      if (!outline.doubles.has(slot)) outline.doubles.set(slot, decodeString(text, start, end));
      return;
    }
    const inner = shape.children[match];
    if (outline.has(slot)) {
      (outline.doubles ??= new Map()).set(slot, shape.names[match] ?? "");
      // The last of repeated members counts, so the inner members of the previous one are discarded.
      if (inner !== undefined) outline.places.fill(-1, 2 * inner.firstSlot, 2 * inner.endSlot);
    }
    this.#next = inner;
  }

  #fail(): void {
    this.isDone = true;
  }
}

/** Returns the position of a name among others, its complement if some parsers take it for that one, or undefined. */
function matchName(names: readonly string[], text: string, start: number, end: number, isEscaped: boolean): number | undefined {
  const length = end - start - 2;
  const key = isEscaped ? decodeString(text, start, end) : undefined;
  let like: number | undefined;
  for (let position = 0; position < names.length; position++) {
    const name = names[position] ?? "";
    if (key === undefined) {
      if (name.length !== length) continue;
      if (text.startsWith(name, start + 1)) return position;
      if (isSpelledOtherwise(text, start + 1, name)) like ??= ~position;
    } else {
      if (key === name) return position;
      if (isMistakenFor(key, name)) like ??= ~position;
    }
  }
  return like;
}

/**
 * Finds members of the object that starts at `start`, after optional white space. The text must be valid. The last one of repeated members
 * counts. Another value has none, nor has the start -1 of an absent value.
 *
 * @returns `double`: the first name that occurs twice, or that some parsers take for one of the names.
 */
export function findMembers(text: string, start: number, names: readonly string[]) {
  const spans = Array.from<Span | undefined>({ length: names.length });
  let double: string | undefined;
  walk(text, start, (valueStart, end, nameStart, nameEnd) => {
    const isEscaped = text.slice(nameStart, nameEnd).includes("\\");
    const match = matchName(names, text, nameStart, nameEnd, isEscaped);
    if (match === undefined) return;
    if (match < 0) {
      double ??= decodeString(text, nameStart, nameEnd);
      return;
    }
    if (spans[match] !== undefined) double ??= names[match];
    spans[match] = { start: valueStart, end };
  });
  return { spans, double };
}

export function textOf(text: string, span: Span | undefined): string | undefined {
  return span === undefined ? undefined : text.slice(span.start, span.end);
}

export function stringOf(text: string, span: Span | undefined): string | undefined {
  return span !== undefined && text[span.start] === '"' ? decodeString(text, span.start, span.end) : undefined;
}

/** @returns undefined if a level of the path is absent or not an object, and for the start -1 of an absent value. */
export function findPath(text: string, start: number, path: readonly string[]): Span | undefined {
  let span: Span | undefined = { start, end: text.length };
  for (const name of path) {
    if (text.charCodeAt(skipWhitespace(text, span.start)) !== Code.openBrace) return undefined;
    span = findMembers(text, span.start, [name]).spans[0];
    if (span === undefined) return undefined;
  }
  return span;
}

export function findElements(text: string, start = 0, maxCount = Infinity): Span[] {
  const spans: Span[] = [];
  walk(text, start, (elementStart, end) => (spans.push({ start: elementStart, end }) < maxCount ? undefined : false));
  return spans;
}
