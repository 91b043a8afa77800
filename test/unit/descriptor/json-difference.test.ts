import { describe, expect, it } from "vitest";
import { findDifferences, isEqualJson } from "../../../src/descriptor/json-difference.ts";
import { nested } from "../support/listed-tools.ts";

describe("isEqualJson", () => {
  it("does not take what every object inherits for a member", () => {
    const own: unknown = JSON.parse('{"__proto__":{}}');
    expect(isEqualJson(own, { x: {} })).toBe(false);
    expect(isEqualJson({ x: {} }, own)).toBe(false);
    expect(isEqualJson(own, JSON.parse('{"__proto__":{}}'))).toBe(true);
  });

  it("tells an empty list from an empty object, and both from nothing", () => {
    expect([isEqualJson([], {}), isEqualJson({}, []), isEqualJson({}, null), isEqualJson([], undefined)]).toEqual([
      false,
      false,
      false,
      false,
    ]);
  });

  it("takes nothing that is too deep for equal, and ends", () => {
    expect(isEqualJson(nested(100), nested(100))).toBe(true);
    expect(isEqualJson(nested(200_000), nested(200_000))).toBe(false);
  });
});

describe("findDifferences", () => {
  it("finds no more than it is asked for", () => {
    const after = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`k${index}`, [1, 2, 3]]));
    expect(findDifferences("a", {}, after, 7)).toHaveLength(7);
    expect(findDifferences("a", [], Array.from({ length: 100 }), 7)).toHaveLength(7);
  });

  it("ends where both are too deep", () => {
    expect(findDifferences("a", nested(200_000), nested(200_000), 7)).toMatchObject([{ path: `a${".a".repeat(128)}` }]);
  });
});
