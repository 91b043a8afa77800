/** The types of chunks (ResourceTypes.h of Android). */
const CHUNK = { strings: 0x0001, document: 0x0003, startElement: 0x0102, endElement: 0x0103, resourceIds: 0x0180 } as const;
const VALUE = { text: 0x03, decimal: 0x10, hexadecimal: 0x11 } as const;
const IS_UTF8 = 0x100;
const NONE = 0xffffffff;
/** Limits against documents that refer to the same long text again and again. */
const MAX_TEXT_CHARACTERS = 1000;
const MAX_DOCUMENT_BYTES = 1024 * 1024;
const ATTRIBUTE_BYTES = 20;

/** Returns a text of the document by its number. */
type Strings = (index: number) => string | undefined;

/** An element, with the names of those around it, such as `manifest/application/service`. */
export interface Element {
  readonly path: string;
  /** The number of the element that it is in, in the order of the document. */
  readonly parent: number | undefined;
  /** By the resource id of the attribute, which is all that Android looks at. Only texts and numbers. */
  readonly attributes: ReadonlyMap<number, string | number>;
  /** The attributes without a resource id, by name. */
  readonly plain: ReadonlyMap<string, string | number>;
}

/** Reads XML as apps have it, compiled. @throws {RangeError} if it is damaged. */
export function readBinaryXml(xml: Buffer): Element[] {
  if (xml.length > MAX_DOCUMENT_BYTES) throw new RangeError("it is too long");
  if (xml.length < 8 || xml.readUInt16LE(0) !== CHUNK.document) throw new RangeError("not compiled XML");
  let strings: Strings = () => undefined;
  let resourceIds: readonly number[] = [];
  const elements: Element[] = [];
  const open: number[] = [];
  for (let at = xml.readUInt16LE(2); at < xml.length;) {
    const size = xml.readUInt32LE(at + 4);
    if (size < 8) throw new RangeError("a chunk is too short");
    const chunk = xml.subarray(at, at + size);
    const type = chunk.readUInt16LE(0);
    if (type === CHUNK.strings) strings = readStrings(chunk);
    else if (type === CHUNK.resourceIds) resourceIds = numbersIn(chunk, 8, Math.floor((size - 8) / 4));
    else if (type === CHUNK.endElement) open.pop();
    else if (type === CHUNK.startElement) {
      const parent = open.at(-1);
      const name = strings(chunk.readUInt32LE(20)) ?? "";
      const path = parent === undefined ? name : `${elements[parent]?.path}/${name}`;
      elements.push({ path, parent, ...readAttributes(chunk, strings, resourceIds) });
      open.push(elements.length - 1);
      // Each path has those around it: their sum would be quadratic.
      if (open.length > 32) throw new RangeError("elements are nested too deeply");
    }
    at += size;
  }
  return elements;
}

function readAttributes(chunk: Buffer, strings: Strings, resourceIds: readonly number[]): Pick<Element, "attributes" | "plain"> {
  const [attributes, plain] = [new Map<number, string | number>(), new Map<string, string | number>()];
  const [start, size, count] = [chunk.readUInt16LE(24), chunk.readUInt16LE(26), chunk.readUInt16LE(28)];
  if (size < ATTRIBUTE_BYTES) throw new RangeError("an attribute is too short");
  for (let index = 0; index < count; index++) {
    const at = 16 + start + index * size;
    const name = chunk.readUInt32LE(at + 4);
    const [type, data] = [chunk.readUInt8(at + 15), chunk.readUInt32LE(at + 16)];
    const value = type === VALUE.text ? strings(data) : type === VALUE.decimal || type === VALUE.hexadecimal ? data : undefined;
    if (value === undefined) continue;
    const id = resourceIds[name];
    if (id !== undefined) attributes.set(id, value);
    else if (chunk.readUInt32LE(at) === NONE) plain.set(strings(name) ?? "", value);
  }
  return { attributes, plain };
}

function readStrings(pool: Buffer): Strings {
  const [count, flags, start] = [pool.readUInt32LE(8), pool.readUInt32LE(16), pool.readUInt32LE(20)];
  const isWide = (flags & IS_UTF8) === 0;
  const offsets = numbersIn(pool, 28, count);
  return (index) => {
    const offset = offsets[index];
    if (offset === undefined) return undefined;
    // In UTF-8, the length in characters comes before that in bytes. Lengths have one unit or two.
    const at = start + offset + (isWide ? 0 : (pool.readUInt8(start + offset) & 0x80) === 0 ? 1 : 2);
    const [mark, unitBytes] = isWide ? [0x8000, 2] : [0x80, 1];
    const unitAt = (position: number): number => pool.readUIntLE(position, unitBytes);
    const isLong = (unitAt(at) & mark) !== 0;
    const length = isLong ? (unitAt(at) & (mark - 1)) * mark * 2 + unitAt(at + unitBytes) : unitAt(at);
    const from = at + (isLong ? 2 : 1) * unitBytes;
    const units = Math.min(length, MAX_TEXT_CHARACTERS);
    return pool.toString(isWide ? "utf16le" : "utf8", from, from + units * unitBytes);
  };
}

/** @throws {RangeError} if the buffer has fewer of them. */
function numbersIn(buffer: Buffer, at: number, count: number): number[] {
  if (at + 4 * count > buffer.length) throw new RangeError("a table is longer than its chunk");
  return Array.from({ length: count }, (_, index) => buffer.readUInt32LE(at + 4 * index));
}
