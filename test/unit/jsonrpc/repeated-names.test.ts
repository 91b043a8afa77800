import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { findRepeatedName } from "../../../src/jsonrpc/repeated-names.ts";
import { keyText, memberText, objectText, valueText } from "../../support/json-text.ts";

/** Whether an object within the text of a value has a name twice; slow, and by nothing but JSON.parse: each object says how many names it has. */
function hasRepeated(text: string): boolean {
  const counts: number[] = [];
  JSON.parse(text, (_key, value: unknown) => {
    if (typeof value === "object" && value !== null && !Array.isArray(value)) counts.push(Object.keys(value).length);
    return value;
  });
  const colons = text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""').split(":").length - 1;
  return counts.reduce((sum, count) => sum + count, 0) !== colons;
}

describe("the name that occurs twice in one object", () => {
  it.each([
    ['{"a":1,"a":2}', "a"],
    ['{"a":1,"\\u0061":2}', "a"],
    ['{"x":[{"b":{}},{"b":1,"c":{"d":1, "d" :2}}]}', "d"],
    ['[{"a":1,"a":1}]', "a"],
    ['{"__proto__":1,"__proto__":2}', "__proto__"],
    ['{"":1,"":2}', ""],
  ])("is found in %s", (text, name) => {
    expect(findRepeatedName(text, 0)).toBe(name);
  });

  it.each(['{"a":{"a":{"a":1}}}', '[{"a":1},{"a":1}]', '{"a":"a","b":["a","a"]}', '{"a":1,"A":2}', '"a"', "7", "{}", "[[],[]]"])(
    "is none in %s",
    (text) => {
      expect(findRepeatedName(text, 0)).toBeUndefined();
    },
  );

  it("is looked for in the value that begins there, and not behind it", () => {
    const text = '{"a":{"b":1},"a":{"c":1,"c":2}}';
    expect([5, 17].map((start) => findRepeatedName(text, start))).toEqual([undefined, "c"]);
    expect(findRepeatedName('{"x":1,"x":2}', 5)).toBeUndefined();
  });

  it("is found in any JSON, or there is none", () => {
    const name = fc.constantFrom("a", "b", "__proto__").chain(keyText);
    const object = objectText(fc.array(memberText(name, valueText), { maxLength: 4 }));
    fc.assert(
      fc.property(fc.oneof(object, valueText), (text) => {
        // Escaped quotes and lone surrogates are the model's limit, not the program's.
        expect(findRepeatedName(text, 0) !== undefined).toBe(hasRepeated(text));
      }),
    );
  });

  it("is found however deep the value is", () => {
    const deep = 100_000;
    expect(findRepeatedName(`${'{"a":'.repeat(deep)}{"b":1,"b":1}${"}".repeat(deep)}`, 0)).toBe("b");
  });
});
