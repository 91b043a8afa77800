import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readValue } from "../../../src/json/value.ts";
import { nodeOf, poisonEngine, readReference, valueOf } from "../../support/json-reference.ts";
import { keyText, memberText, objectText, valueText } from "../../support/json-text.ts";

const name = fc.constantFrom("id", "name", "x", "__proto__", "constructor", "0", "1", "10", "length", "toString").chain(keyText);

/** The value's own members with the order of their names, which `toEqual` ignores. */
function spelled(value: unknown): string {
  return JSON.stringify(value);
}

describe("a value read from text", () => {
  it("names with escapes are right even if the engine misreads them", () => {
    let misread = 0;
    const object = objectText(fc.array(memberText(name, valueText), { maxLength: 5 }));
    fc.assert(
      fc.property(fc.oneof(object, valueText), fc.nat(3), (text, depth) => {
        const node = nodeOf(text);
        poisonEngine(node);
        const value = spelled(valueOf(node));
        if (spelled(JSON.parse(text)) !== value) misread++;
        expect(spelled(readValue(text))).toBe(value);
        const before = "[".repeat(depth);
        const span = { start: before.length, end: before.length + text.length };
        expect(spelled(readValue(`${before}${text}"\\":`, span))).toBe(value);
      }),
      { numRuns: 2000 },
    );
    // An engine that reads names correctly never misreads. Any other one must, or the poison would have no effect.
    expect(misread === 0 || misread > 20).toBe(true);
  });

  it.each([
    [String.raw`{"a\u0062":1}`, ["ab"]],
    [String.raw`{"i\n":1,"a\"b":2,"\\":3}`, ["i\n", 'a"b', "\\"]],
    [String.raw`{"b":1,"\u0061":2,"1":3,"\u0030":4}`, ["0", "1", "b", "a"]],
    [String.raw`{"a":1,"\u0061":2}`, ["a"]],
    [String.raw`{"\u005f_proto__":{"x":1}}`, ["__proto__"]],
    [String.raw`{"__proto__":{"x":1},"\n":1}`, ["__proto__", "\n"]],
    [String.raw`{"constructor":1,"\t":{}}`, ["constructor", "\t"]],
    [String.raw`{"\ud83d\ude00":1,"\ud83d":2}`, ["😀", "\ud83d"]],
  ])("the value of %s has its own names", (text, names) => {
    const value = readValue(text) as object;
    expect(Object.keys(value)).toEqual(names);
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect("x" in value).toBe(false);
  });

  it("a value may have any depth", () => {
    const depth = 100_000;
    for (const [open, close] of [
      ['{"\\u0061":', "}"],
      ["[", "]"],
    ] as const) {
      let value = readValue(`{"\\n":${open.repeat(depth)}7${close.repeat(depth)}}`) as Record<string, unknown> | unknown[] | number;
      let levels = 0;
      for (; typeof value === "object"; levels++) [value] = Object.values(value) as [typeof value];
      expect([levels, value]).toEqual([depth + 1, 7]);
    }
  });

  it.each(["", "{", '{"\\n":1', '{"\\u006":1}', "[1,]", '{"a\\":1}'])("%j is not a value", (text) => {
    expect(readReference(text)).toBeUndefined();
    expect(() => readValue(text)).toThrow(SyntaxError);
  });
});
