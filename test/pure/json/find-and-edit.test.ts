import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { applyEdits, removeMember } from "../../../src/json/edit.ts";
import { memberOf, nodeOf, poisonEngine, referenceValue } from "../../support/json-reference.ts";
import { inAnyOrder, inPieces, keyText, memberText, objectText, otherMembers, valueText, whitespace } from "../../support/json-text.ts";
import { findElements, findMembers, findPath } from "../../../src/json/find.ts";
import type { Span } from "../../../src/json/strings.ts";

function without(text: string, name: string): string {
  return applyEdits(text, removeMember(text, 0, name));
}

describe("removeMember", () => {
  it.each([
    [`{"list":{}}`, `{}`],
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
});

describe("applyEdits", () => {
  it("edits may be in any order", () => {
    const edits = [
      { start: 4, end: 5, text: "long" },
      { start: 0, end: 2, text: "" },
    ];
    for (const each of [edits, edits.toReversed()]) expect(applyEdits("abcdefg", each)).toBe("cdlongfg");
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

function cut(text: string, span: Span | undefined): string | undefined {
  return span === undefined ? undefined : text.slice(span.start, span.end);
}

describe("findMembers", () => {
  it("the last member of a repeated name is returned, with that name", () => {
    const text = '{"id":1,"a":0,"\\u0069\\u0064":2,"a":1,"a":2}';
    const { spans, duplicate } = findMembers(text, 0, ["a", "id"]);
    expect(spans.map((span) => cut(text, span))).toEqual(["2", "2"]);
    expect(duplicate).toBe("id");
  });

  it("the last member is found even if the engine misreads names", () => {
    const object = objectText(
      inAnyOrder(
        otherMembers("wanted"),
        memberText(keyText("wanted"), valueText),
        fc.array(memberText(keyText("wanted"), valueText), { maxLength: 2 }),
      ),
    );
    const text = fc.tuple(whitespace, object, whitespace).map((parts) => parts.join(""));
    fc.assert(
      fc.property(text, (json) => {
        const node = nodeOf(json);
        poisonEngine(node);
        expect(cut(json, findMembers(json, 0, ["wanted"]).spans[0])).toBe(memberOf(node, "wanted")?.text);
      }),
    );
  });
});

describe("findPath", () => {
  it("names are followed downwards", () => {
    const text = '{"a":{"b":1},"params":{"_meta":{"other":{},"progressToken" : "t"}}}';
    expect(cut(text, findPath(text, 0, ["params", "_meta", "progressToken"]))).toBe('"t"');
  });

  it.each(['{"a":1}', '{"a":"{\\"b\\":1}"}', '{"a":[{"b":1}]}', '{"a":["b",1]}', '{"a":null}', '{"a":{}}', '{"b":1}', "{}"])(
    "nothing is found in %s, which lacks a level or an object",
    (text) => {
      expect(findPath(text, 0, ["a", "b"])).toBeUndefined();
    },
  );
});

describe("findElements", () => {
  it("all elements of any array are found", () => {
    const element = fc.tuple(whitespace, valueText, whitespace).map((parts) => parts.join(""));
    fc.assert(
      fc.property(fc.array(element, { minLength: 1 }), whitespace, (elements, around) => {
        const text = `${around}[${elements.join(",")}]${around}`;
        expect(findElements(text).map((span) => cut(text, span))).toEqual(elements.map((each) => each.trim()));
      }),
    );
  });
});
