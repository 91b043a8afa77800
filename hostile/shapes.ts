// JSON values of any length, each costly to parse in another way. They are generated in pieces, so that long values need little memory.

/** A text, or a function of its index, and the number of repetitions. */
type Piece = readonly [text: string | ((index: number) => string), count: number];

const CHUNK_LENGTH = 64 * 1024;

const MAKERS = {
  objects: (bytes) => list("{}", bytes),
  "deep-arrays": (bytes) => around("[", bytes >> 1, "", "]"),
  "deep-objects": (bytes) => around('{"a":', Math.floor((bytes - 1) / 6), "1", "}"),
  plain: (bytes) => quoted("x", bytes),
  "non-ascii": (bytes) => quoted("ü€😀", bytes),
  escapes: (bytes) => quoted("\\u0041\\n\\\\\\/", bytes),
  "lone-surrogates": (bytes) => quoted("\\ud800x", bytes),
  "line-separators": (bytes) => quoted("\u2028\u2029", bytes),
  members: (bytes) => members(bytes, (index) => `"m${padded(index)}":1,`),
  "duplicate-names": (bytes) => members(bytes, () => '"same":1,'),
  "escaped-names": (bytes) => members(bytes, (index) => `"\\u006d${padded(index)}":1,`),
  "long-name": (bytes) => between('{"', "n", bytes - 6, '":1}'),
  digits: (bytes) => between("", "7", bytes, ""),
  numbers: (bytes) => list("1.7976931348623157e308", bytes),
  "white-space": (bytes) => between("", " ", bytes - 1, "1"),
  "line-breaks": (bytes) => between("[", "\n\r", (bytes - 3) >> 1, "1]"),
  "invalid-end": (bytes) => between("[", "{},", Math.floor((bytes - 4) / 3), "{}}"),
} as const satisfies Readonly<Record<string, (bytes: number) => readonly Piece[]>>;

export type Shape = keyof typeof MAKERS;
export const SHAPES = Object.keys(MAKERS) as Shape[];

/** Returns a value of at most `bytes` bytes, and only slightly fewer. */
export function shapeText(shape: Shape, bytes: number): string {
  return [...shapeChunks(shape, bytes)].join("");
}

/** Yields the same value in chunks. */
export function* shapeChunks(shape: Shape, bytes: number): Generator<string> {
  for (const [text, count] of MAKERS[shape](bytes)) {
    let index = 0;
    while (index < count) {
      const length = typeof text === "string" ? text.length : text(0).length;
      const until = Math.min(count, index + Math.max(1, Math.floor(CHUNK_LENGTH / length)));
      if (typeof text === "string") yield text.repeat(until - index);
      else yield Array.from({ length: until - index }, (_, offset) => text(index + offset)).join("");
      index = until;
    }
  }
}

/** Returns a text that is repeated, with one before it and one after it. */
function between(before: string, text: Piece[0], count: number, after: string): readonly Piece[] {
  const once = (part: string): readonly Piece[] => (part === "" ? [] : [[part, 1]]);
  return [...once(before), [text, Math.max(0, count)], ...once(after)];
}

/** Returns a text that is nested so many times. */
function around(before: string, count: number, text: string, after: string): readonly Piece[] {
  return [...between("", before, count, text), ...between("", after, count, "")];
}

function list(item: string, bytes: number): readonly Piece[] {
  return between("[", `${item},`, Math.floor((bytes - item.length - 2) / (item.length + 1)), `${item}]`);
}

function quoted(content: string, bytes: number): readonly Piece[] {
  return between('"', content, Math.floor((bytes - 2) / Buffer.byteLength(content)), '"');
}

function members(bytes: number, member: (index: number) => string): readonly Piece[] {
  return between("{", member, Math.floor((bytes - 10) / member(0).length), '"last":1}');
}

function padded(index: number): string {
  return String(index).padStart(8, "0");
}
