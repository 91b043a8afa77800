import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { applyEdits, removeItems, removeMember } from "../../../src/json/edit.ts";
import { referenceValue } from "../../support/json-reference.ts";
import { inPieces, keyText, memberText, objectText, otherMembers, valueText, whitespace } from "../../support/json-text.ts";

function without(text: string, name: string): string {
  return applyEdits(text, removeMember(text, 0, name));
}

describe("removeMember", () => {
  it.each([
    [`{}`, `{}`],
    [`{"list":{}}`, `{}`],
    [`{ "list" : {} }`, `{  }`],
    [`{"a":1.0,"list":{}}`, `{"a":1.0}`],
    [`{"list":{}, "a":1}`, `{"a":1}`],
    [`{"a":1 ,"list":{} , "b":2}`, `{"a":1 ,"b":2}`],
    [`{"list":1,"a":0,"list":2,"list":3}`, `{"a":0}`],
    [String.raw`{"list":"\"},{" , "x":"list"}`, `{"x":"list"}`],
    [String.raw`{"l\u0069st":[1,{"list":2}],"b":{"list":3}}`, `{"b":{"list":3}}`],
  ])("%s becomes %s", (text, expected) => {
    expect(without(text, "list")).toBe(expected);
  });

  it("every member of that name is removed, and the others are unchanged", () => {
    const others = otherMembers("list");
    const named = fc.array(memberText(keyText("list"), valueText), { maxLength: 3 });
    const positions = fc.array(fc.nat(), { minLength: 3, maxLength: 3 });
    fc.assert(
      fc.property(others, named, positions, whitespace, (kept, removed, random, before) => {
        const members = [...kept];
        for (const [index, member] of removed.entries()) members.splice((random[index] ?? 0) % (members.length + 1), 0, member);
        const text = `${before}{${members.join(",")}}`;
        const result = without(text, "list");
        expect(JSON.stringify(referenceValue(result))).toBe(JSON.stringify(referenceValue(`{${kept.join(",")}}`)));
        for (const member of kept) expect(result).toContain(member.trim());
      }),
    );
  });

  it("a text without the member is unchanged", () => {
    fc.assert(
      fc.property(objectText(otherMembers("list")), (text) => {
        expect(without(text, "list")).toBe(text);
      }),
    );
  });
});

describe("removeItems", () => {
  it("the list keeps exactly the chosen items", () => {
    const parts = fc.array(fc.record({ text: fc.stringMatching(/^[a-z]{1,3}$/), isKept: fc.boolean() }), { maxLength: 8 });
    fc.assert(
      fc.property(parts, whitespace, (items, space) => {
        let text = "[";
        const spans = items.map(({ text: item, isKept }, index) => {
          text += (index === 0 ? "" : `${space},${space}`) + item;
          return { start: text.length - item.length, end: text.length, isKept };
        });
        text += "]";
        const kept = items.filter(({ isKept }) => isKept).map((item) => item.text);
        const result = applyEdits(text, removeItems(spans));
        expect(result.replaceAll(/\s/g, "")).toBe(`[${kept.join(",")}]`);
      }),
    );
  });
});

describe("applyEdits", () => {
  it("any number of edits is applied", () => {
    const text = "ab".repeat(1000);
    const edits = Array.from({ length: 1000 }, (_, index) => ({ start: index * 2, end: index * 2 + 1, text: String(index) }));
    const expected = Array.from({ length: 1000 }, (_, index) => `${index}b`).join("");
    expect(applyEdits(text, edits)).toBe(expected);
    expect(applyEdits(text, edits.toReversed())).toBe(expected);
    expect(applyEdits(text, [])).toBe(text);
  });

  it("each span is replaced in one pass, with edits in any order", () => {
    const edits = [
      { start: 4, end: 5, text: "long" },
      { start: 0, end: 2, text: "" },
    ];
    expect(applyEdits("abcdefg", edits)).toBe("cdlongfg");
    expect(applyEdits("abcdefg", edits.toReversed())).toBe("cdlongfg");
  });

  it("text outside the spans is unchanged", () => {
    fc.assert(
      fc.property(inPieces(fc.string()), fc.array(fc.string(), { minLength: 13, maxLength: 13 }), ({ text, pieces }, replacements) => {
        let end = 0;
        const all = pieces.map((piece, index) => ({ start: end, end: (end += piece.length), text: replacements[index] ?? "" }));
        const edits = all.filter((_edit, index) => index % 2 === 1);
        const expected = pieces.map((piece, index) => (index % 2 === 1 ? replacements[index] : piece)).join("");
        expect(applyEdits(text, edits)).toBe(expected);
      }),
    );
  });
});
