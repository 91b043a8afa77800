/**
 * A slow reader of JSON as a reference. It follows the grammar alone (RFC 8259), and decodes each string separately. V8 misreads an
 * object's escaped name after it has read certain others (nodejs/node#63785), so `JSON.parse` is not a model for names.
 */
export interface JsonNode {
  /** The value as spelled. */
  readonly text: string;
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
  readonly members?: readonly JsonMember[];
  readonly elements?: readonly JsonNode[];
}

interface JsonMember {
  readonly name: string;
  /** As spelled, with its quotes. */
  readonly nameText: string;
  readonly nameStart: number;
  readonly node: JsonNode;
}

const WHITESPACE = /[ \t\n\r]*/y;
const STRING = /"(?:[ !#-[\]-\uffff]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"/y;
const SCALAR = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null/y;

/** More names in one object take too long. */
const MAX_POISONED = 16;

class NotJson extends Error {}

class ReferenceReader {
  readonly #text: string;
  #index = 0;

  constructor(text: string) {
    this.#text = text;
  }

  readAll(): JsonNode {
    const node = this.#readValue();
    this.#take(WHITESPACE);
    if (this.#index !== this.#text.length) throw new NotJson();
    return node;
  }

  #readValue(): JsonNode {
    this.#take(WHITESPACE);
    const start = this.#index;
    const end = (): { text: string; start: number; end: number } => ({
      text: this.#text.slice(start, this.#index),
      start,
      end: this.#index,
    });
    if (this.#takeCharacter("{")) {
      const members = this.#readList("}", () => this.#readMember());
      return { ...end(), members };
    }
    if (this.#takeCharacter("[")) {
      const elements = this.#readList("]", () => this.#readValue());
      return { ...end(), elements };
    }
    if (this.#take(STRING) === undefined && this.#take(SCALAR) === undefined) throw new NotJson();
    return end();
  }

  #readMember(): JsonMember {
    this.#take(WHITESPACE);
    const nameStart = this.#index;
    const nameText = this.#take(STRING);
    this.#take(WHITESPACE);
    if (nameText === undefined || !this.#takeCharacter(":")) throw new NotJson();
    return { name: JSON.parse(nameText) as string, nameText, nameStart, node: this.#readValue() };
  }

  #readList<Item>(close: string, readItem: () => Item): Item[] {
    const items: Item[] = [];
    this.#take(WHITESPACE);
    if (this.#takeCharacter(close)) return items;
    for (;;) {
      items.push(readItem());
      this.#take(WHITESPACE);
      if (this.#takeCharacter(close)) return items;
      if (!this.#takeCharacter(",")) throw new NotJson();
    }
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#index;
    const taken = pattern.exec(this.#text)?.[0];
    this.#index += taken?.length ?? 0;
    return taken;
  }

  #takeCharacter(character: string): boolean {
    const isThere = this.#text[this.#index] === character;
    if (isThere) this.#index++;
    return isThere;
  }
}

/** @returns undefined for a text that is not JSON. Recursive: not for deep texts. */
export function readReference(text: string): JsonNode | undefined {
  try {
    return new ReferenceReader(text).readAll();
  } catch (error) {
    if (error instanceof NotJson) return undefined;
    throw error;
  }
}

export function nodeOf(text: string): JsonNode {
  const node = readReference(text);
  if (node === undefined) throw new SyntaxError(`not JSON: ${text}`);
  return node;
}

export function referenceValue(text: string): unknown {
  return valueOf(nodeOf(text));
}

export function valueOf({ text, members, elements }: JsonNode): unknown {
  if (elements !== undefined) return elements.map((element) => valueOf(element));
  if (members === undefined) return JSON.parse(text);
  const value = {};
  for (const { name, node } of members) {
    Object.defineProperty(value, name, { value: valueOf(node), writable: true, enumerable: true, configurable: true });
  }
  return value;
}

/** Returns the member that most readers use: the last of that name. */
export function memberOf({ members = [] }: JsonNode, name: string): JsonNode | undefined {
  return members.findLast((member) => member.name === name)?.node;
}

export function allMembers({ members = [], elements = [] }: JsonNode): JsonMember[] {
  return [...members.flatMap((member) => [member, ...allMembers(member.node)]), ...elements.flatMap((element) => allMembers(element))];
}

/** Makes the engine misread this text's escaped names: from then on, it takes `{"x":1,"i\u0064":1}` for one with `i\`. */
export function poisonEngine({ members = [], elements = [] }: JsonNode): void {
  for (const [index, { nameText }] of members.slice(0, MAX_POISONED).entries()) {
    const plainLength = nameText.indexOf("\\");
    if (plainLength === -1) continue;
    const before = members.slice(0, index).map((member) => `${JSON.stringify(member.name)}:0,`);
    JSON.parse(`{${before.join("")}${nameText.slice(0, plainLength)}\\\\":0}`);
  }
  for (const { node } of members) poisonEngine(node);
  for (const element of elements) poisonEngine(element);
}
