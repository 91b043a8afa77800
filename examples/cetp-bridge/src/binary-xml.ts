/** The types of chunks and values (ResourceTypes.h of Android). */
const CHUNK = { strings: 0x0001, document: 0x0003, startElement: 0x0102, endElement: 0x0103, resourceIds: 0x0180 } as const;
const VALUE = { text: 0x03, decimal: 0x10, hexadecimal: 0x11 } as const;
const IS_UTF8 = 0x100;
const ATTRIBUTE_BYTES = 20;
export const MAX_DOCUMENT_BYTES = 1024 * 1024;
const MAX_TEXT_CHARACTERS = 1000;
const MAX_DEPTH = 32;

export interface Element {
  /** The names of the elements around it and its own, such as `manifest/application/service`. */
  readonly path: string;
  /** The index of the element that it is in. */
  readonly parent: number | undefined;
  /** Texts and numbers, by the resource id of the attribute, which is all that Android looks at, or by name if it has none. */
  readonly attributes: ReadonlyMap<number | string, string>;
}

/** Reads XML as it is compiled into apps. @throws {RangeError} if it is damaged. */
export function readBinaryXml(xml: Buffer): Element[] {
  if (xml.length > MAX_DOCUMENT_BYTES) throw new RangeError("the compiled XML is too long");
  if (xml.length < 8 || xml.readUInt16LE(0) !== CHUNK.document || xml.readUInt32LE(4) !== xml.length)
    throw new RangeError("there is no compiled XML");
  let strings = (_index: number): string => "";
  let resourceIds: readonly number[] = [];
  const elements: Element[] = [];
  const open: number[] = [];
  let chunk = xml.subarray(0, xml.readUInt16LE(2));
  for (let at = chunk.length; at < xml.length; at += chunk.length) {
    const bytes = xml.readUInt32LE(at + 4);
    // Android would read another document.
    if (bytes < 8 || bytes % 4 !== 0 || at + bytes > xml.length) throw new RangeError("a chunk has a wrong length");
    chunk = xml.subarray(at, at + bytes);
    const type = chunk.readUInt16LE(0);
    if (type === CHUNK.strings) strings = stringsOf(chunk);
    else if (type === CHUNK.resourceIds) resourceIds = numbersIn(chunk, 8, Math.floor(chunk.length / 4) - 2);
    else if (type === CHUNK.endElement) open.pop();
    else if (type === CHUNK.startElement) {
      const parent = open.at(-1);
      const name = strings(chunk.readUInt32LE(20));
      const path = parent === undefined ? name : `${elements[parent]?.path}/${name}`;
      open.push(elements.push({ path, parent, attributes: attributesOf(chunk, strings, resourceIds) }) - 1);
      if (open.length > MAX_DEPTH) throw new RangeError("elements are nested too deeply");
    }
  }
  return elements;
}

function attributesOf(chunk: Buffer, strings: (index: number) => string, resourceIds: readonly number[]): Element["attributes"] {
  const [start, size, count] = [chunk.readUInt16LE(24), chunk.readUInt16LE(26), chunk.readUInt16LE(28)];
  if (size < ATTRIBUTE_BYTES) throw new RangeError("an attribute is too short");
  const attributes = new Map<number | string, string>();
  for (let at = 16 + start; at < 16 + start + count * size; at += size) {
    const name = chunk.readUInt32LE(at + 4);
    const [type, data] = [chunk.readUInt8(at + 15), chunk.readUInt32LE(at + 16)];
    const key = resourceIds[name] ?? strings(name);
    if (type === VALUE.text) attributes.set(key, strings(data));
    else if (type === VALUE.decimal || type === VALUE.hexadecimal) attributes.set(key, String(data));
  }
  return attributes;
}

/** Returns a function from the index of a text to the text. It reads each text once, and together not more than a document can have. */
function stringsOf(pool: Buffer): (index: number) => string {
  const [count, flags, start] = [pool.readUInt32LE(8), pool.readUInt32LE(16), pool.readUInt32LE(20)];
  // Compilers write manifests in UTF-16.
  if ((flags & IS_UTF8) !== 0) throw new RangeError("the compiled XML is in UTF-8");
  const offsets = numbersIn(pool, 28, count);
  const texts = new Map<number, string>();
  let characters = 0;
  const read = (offset: number): string => {
    const length = pool.readUInt16LE(start + offset);
    // With the highest bit, the length has two units. So long a text is cut anyway.
    const [from, units] = (length & 0x8000) === 0 ? [start + offset + 2, length] : [start + offset + 4, MAX_TEXT_CHARACTERS];
    const text = pool.toString("utf16le", from, from + 2 * Math.min(units, MAX_TEXT_CHARACTERS));
    characters += text.length;
    if (2 * characters > MAX_DOCUMENT_BYTES) throw new RangeError("texts overlap");
    return text;
  };
  return (index) => {
    const offset = offsets[index];
    if (offset === undefined) return "";
    const text = texts.get(index) ?? read(offset);
    texts.set(index, text);
    return text;
  };
}

/** @throws {RangeError} if the buffer has fewer of them. */
function numbersIn(buffer: Buffer, at: number, count: number): number[] {
  if (at + 4 * count > buffer.length) throw new RangeError("a table is longer than its chunk");
  return Array.from({ length: count }, (_, index) => buffer.readUInt32LE(at + 4 * index));
}
