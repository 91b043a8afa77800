import { describe, expect, it } from "vitest";
import { findDifferences, isEqualJson } from "../../../src/descriptor/json-difference.ts";
import { nested } from "../../support/reviewed-tools.ts";

describe("the equality of JSON", () => {
  it("an inherited member is not a member", () => {
    const own: unknown = JSON.parse('{"__proto__":{}}');
    expect(isEqualJson(own, { x: {} })).toBe(false);
    expect(isEqualJson({ x: {} }, own)).toBe(false);
    expect(isEqualJson(own, JSON.parse('{"__proto__":{}}'))).toBe(true);
  });

  it("an empty list, an empty object and nothing differ", () => {
    expect([isEqualJson([], {}), isEqualJson({}, []), isEqualJson({}, null), isEqualJson([], undefined)]).toEqual([
      false,
      false,
      false,
      false,
    ]);
  });

  it("JSON that is too deep is never equal", () => {
    expect(isEqualJson(nested(100), nested(100))).toBe(true);
    expect(isEqualJson(nested(200_000), nested(200_000))).toBe(false);
  });
});

describe("the differences of JSON", () => {
  it("no more differences are found than asked for", () => {
    const after = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`k${index}`, [1, 2, 3]]));
    expect(findDifferences("a", {}, after, 7)).toHaveLength(7);
    expect(findDifferences("a", [], Array.from({ length: 100 }), 7)).toHaveLength(7);
  });

  it("JSON that is too deep on both sides is one difference", () => {
    expect(findDifferences("a", nested(200_000), nested(200_000), 7)).toMatchObject([{ path: `a${".a".repeat(128)}` }]);
  });
});
