import * as fc from "fast-check";

/** Arbitrary JSON as text, spelled in every way that the grammar allows: values that a parser would make equal stay different. */

/** Insignificant text: one or several characters of JSON white space, or none. */
export const whitespace = fc.oneof(
  { weight: 3, arbitrary: fc.constant("") },
  fc.string({ unit: fc.constantFrom(" ", "\t", "\n", "\r"), maxLength: 3 }),
);

const FREE_CHARACTERS = ["a", "z", "0", " ", "{", "}", "[", "]", ":", ",", "é", "€", "😀", "\u2028", "\u007f"];
const ESCAPES = ['\\"', "\\\\", "\\/", "\\b", "\\n", "\\r", "\\t", "\\u0069", "\\u00E9", "\\ud83d", "\\u0000"];

/** A string with its quotes, often full of characters that look like structure, or of escaped quotes and backslashes. */
const stringText = fc
  .string({ unit: fc.oneof(fc.constantFrom(...FREE_CHARACTERS), fc.constantFrom(...ESCAPES)), maxLength: 12 })
  .map((inner) => `"${inner}"`);

/** Numbers that do not survive a parser: too large, too long, or with a fraction or exponent without effect. */
const numberText = fc.oneof(
  fc.constantFrom("0", "-0", "1.0", "1e400", "-1E+400", "9007199254740993", "123456789012345678901234567890", "0.10", "1e-0", "2.50E1"),
  fc.maxSafeInteger().map(String),
);

/** A name in one of its many spellings, with quotes: each character plain or as `\uXXXX`. */
export function keyText(name: string): fc.Arbitrary<string> {
  const spelled = Array.from(name, (character) => {
    const hex = character.charCodeAt(0).toString(16).padStart(4, "0");
    return fc.oneof({ weight: 4, arbitrary: fc.constant(character) }, fc.constantFrom(`\\u${hex}`, `\\u${hex.toUpperCase()}`));
  });
  return fc.tuple(...spelled).map((characters) => `"${characters.join("")}"`);
}

/** `"key": value` with white space wherever it is allowed. */
export function memberText(key: fc.Arbitrary<string>, value: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc.tuple(whitespace, key, whitespace, whitespace, value, whitespace).map(([a, k, b, c, v, d]) => `${a}${k}${b}:${c}${v}${d}`);
}

export function objectText(members: fc.Arbitrary<readonly string[]>): fc.Arbitrary<string> {
  return fc.tuple(members, whitespace).map(([list, inner]) => (list.length === 0 ? `{${inner}}` : `{${list.join(",")}}`));
}

/** Names that the program looks for at some level, so that they appear at every other one, and repeatedly. */
const MEANT_NAMES = ["id", "method", "params", "_meta", "progressToken", "jsonrpc", "requestId", "__proto__"];

export const { value: valueText } = fc.letrec<{ value: string; array: string; object: string }>((tie) => ({
  value: fc.oneof({ maxDepth: 3 }, numberText, stringText, fc.constantFrom("true", "false", "null"), tie("array"), tie("object")),
  array: fc
    .array(fc.tuple(whitespace, tie("value"), whitespace), { maxLength: 3 })
    .map((items) => `[${items.map((item) => item.join("")).join(",")}]`),
  object: objectText(
    fc.array(memberText(fc.oneof(stringText, fc.constantFrom(...MEANT_NAMES).chain(keyText)), tie("value")), { maxLength: 3 }),
  ),
}));

/** A request id or progress token of MCP: a string or an integer, in any spelling. */
export const idText = fc.oneof(
  numberText.filter((number) => number !== "0.10"),
  stringText,
);

/** The members of several arbitraries in one list. */
export function together(...parts: readonly fc.Arbitrary<string | readonly string[]>[]): fc.Arbitrary<string[]> {
  return fc.tuple(...parts).map((lists) => lists.flat());
}

/** Members with any names except these. */
export function otherMembers(...names: readonly string[]): fc.Arbitrary<string[]> {
  const otherKey = fc
    .oneof(stringText, fc.constantFrom(...MEANT_NAMES, "result", "error").chain(keyText))
    .filter((key) => !names.includes(JSON.parse(key) as string));
  return fc.array(memberText(otherKey, valueText), { maxLength: 4 });
}

/** All members in any order, but `last` after all of `earlier`. */
export function inAnyOrder(
  members: fc.Arbitrary<readonly string[]>,
  last: fc.Arbitrary<string>,
  earlier: fc.Arbitrary<readonly string[]> = fc.constant([]),
): fc.Arbitrary<string[]> {
  const positions = fc.array(fc.nat(), { minLength: 8, maxLength: 8 });
  return fc.tuple(members, last, earlier, positions).map(([others, final, decoys, random]) => {
    const list = decoys.concat(final);
    for (const [index, member] of others.entries()) list.splice((random[index] ?? 0) % (list.length + 1), 0, member);
    return list;
  });
}
