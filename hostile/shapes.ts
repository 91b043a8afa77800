// JSON values of any length, each costly to parse in another way. They are generated in pieces, so that long values need little memory.

export const SHAPES = [
  "objects",
  "deep-arrays",
  "deep-objects",
  "plain",
  "non-ascii",
  "escapes",
  "quotes",
  "lone-surrogates",
  "line-separators",
  "members",
  "duplicate-names",
  "escaped-names",
  "long-name",
  "digits",
  "numbers",
  "mixed",
  "white-space",
  "line-breaks",
  "invalid-end",
] as const;
export type Shape = (typeof SHAPES)[number];

/** A text, or a function of its index, and the number of repetitions. */
type Piece = readonly [text: string | ((index: number) => string), count: number];

const CHUNK_LENGTH = 64 * 1024;

const MAKERS: Readonly<Record<Shape, (bytes: number) => readonly Piece[]>> = {
  objects: (bytes) => list("{}", bytes),
  "deep-arrays": (bytes) => [
    ["[", bytes >> 1],
    ["]", bytes >> 1],
  ],
  "deep-objects": (bytes) => [
    ['{"a":', Math.floor((bytes - 1) / 6)],
    ["1", 1],
    ["}", Math.floor((bytes - 1) / 6)],
  ],
  plain: (bytes) => quoted("x", bytes),
  "non-ascii": (bytes) => quoted("ü€😀", bytes),
  escapes: (bytes) => quoted("\\u0041\\n\\\\\\/", bytes),
  quotes: (bytes) => quoted('\\"', bytes),
  "lone-surrogates": (bytes) => quoted("\\ud800x", bytes),
  "line-separators": (bytes) => quoted("\u2028\u2029", bytes),
  members: (bytes) => members(bytes, (index) => `"m${padded(index)}":1,`),
  "duplicate-names": (bytes) => members(bytes, () => '"same":1,'),
  "escaped-names": (bytes) => members(bytes, (index) => `"\\u006d${padded(index)}":1,`),
  "long-name": (bytes) => [
    ['{"', 1],
    ["n", bytes - 6],
    ['":1}', 1],
  ],
  digits: (bytes) => [["7", bytes]],
  numbers: (bytes) => list("1.7976931348623157e308", bytes),
  mixed: (bytes) => list('[],{},"",0,null,{"a":[]}', bytes),
  "white-space": (bytes) => [
    [" ", bytes - 1],
    ["1", 1],
  ],
  "line-breaks": (bytes) => [
    ["[", 1],
    ["\n\r", (bytes - 3) >> 1],
    ["1]", 1],
  ],
  "invalid-end": (bytes) => [
    ["[", 1],
    ["{},", Math.floor((bytes - 4) / 3)],
    ["{}}", 1],
  ],
};

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

function list(item: string, bytes: number): readonly Piece[] {
  return [
    ["[", 1],
    [`${item},`, Math.max(0, Math.floor((bytes - item.length - 2) / (item.length + 1)))],
    [`${item}]`, 1],
  ];
}

function quoted(content: string, bytes: number): readonly Piece[] {
  return [
    ['"', 1],
    [content, Math.floor((bytes - 2) / Buffer.byteLength(content))],
    ['"', 1],
  ];
}

function members(bytes: number, member: (index: number) => string): readonly Piece[] {
  return [
    ["{", 1],
    [member, Math.max(0, Math.floor((bytes - 10) / member(0).length))],
    ['"last":1}', 1],
  ];
}

function padded(index: number): string {
  return String(index).padStart(8, "0");
}
