import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { findRepeatedName, isMistakenFor } from "../../../src/json/text.ts";
import { type JsonNode, nodeOf, poisonEngine } from "../../support/json-reference.ts";
import { keyText, memberText, objectText, valueText } from "../../support/json-text.ts";

/** Returns true if an object within a value's text has a repeated name. */
function hasRepeated({ members = [], elements = [] }: JsonNode): boolean {
  if (new Set(members.map(({ name }) => name)).size < members.length) return true;
  return [...members.map(({ node }) => node), ...elements].some((node) => hasRepeated(node));
}

describe("the repeated name in an object", () => {
  it("a repeated name is found in any JSON that has one", () => {
    const name = fc.constantFrom("a", "b", "__proto__").chain(keyText);
    const object = objectText(fc.array(memberText(name, valueText), { maxLength: 4 }));
    fc.assert(
      fc.property(fc.oneof(object, valueText), (text) => {
        const node = nodeOf(text);
        poisonEngine(node);
        expect(findRepeatedName(text, 0) !== undefined).toBe(hasRepeated(node));
      }),
    );
  });

  it("a repeated name is found however deep the value is", () => {
    const deep = 100_000;
    expect(findRepeatedName(`${'{"a":'.repeat(deep)}{"b":1,"b":1}${"}".repeat(deep)}`, 0)).toBe("b");
  });
});

describe("a name in another case", () => {
  it("some readers take these names for each other", () => {
    const pairs = "Name name, NAME name, INPUTSCHEMA inputSchema, argumentſ arguments, taſ\u212a task, ıd id, İD id, _Meta _meta";
    expect(pairs.split(", ").filter((pair) => !isMistakenFor(pair.split(" ")[0] ?? "", pair.split(" ")[1] ?? ""))).toEqual([]);
    // The last pairs differ by the bit that distinguishes upper and lower case.
    const others = "name name, names name, nam name, namf name, näme name, \u007fmeta _meta, @ `, { [";
    expect(others.split(", ").filter((pair) => isMistakenFor(pair.split(" ")[0] ?? "", pair.split(" ")[1] ?? ""))).toEqual([]);
  });
});
