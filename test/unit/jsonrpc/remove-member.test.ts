import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { applyEdits, removeMember } from "../../../src/jsonrpc/splice.ts";
import { keyText, memberText, objectText, otherMembers, valueText, whitespace } from "../../support/json-text.ts";

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
  ])("makes %s %s", (text, expected) => {
    expect(without(text, "list")).toBe(expected);
  });

  it("takes out every member of that name, and leaves the text of all others as it was", () => {
    const others = otherMembers("list");
    const named = fc.array(memberText(keyText("list"), valueText), { maxLength: 3 });
    const positions = fc.array(fc.nat(), { minLength: 3, maxLength: 3 });
    fc.assert(
      fc.property(others, named, positions, whitespace, (kept, removed, random, before) => {
        const members = [...kept];
        for (const [index, member] of removed.entries()) members.splice((random[index] ?? 0) % (members.length + 1), 0, member);
        const text = `${before}{${members.join(",")}}`;
        const result = without(text, "list");
        const expected = JSON.parse(`{${kept.join(",")}}`) as unknown;
        expect(JSON.stringify(JSON.parse(result))).toBe(JSON.stringify(expected));
        for (const member of kept) expect(result).toContain(member.trim());
      }),
    );
  });

  it("changes nothing where there is none", () => {
    fc.assert(
      fc.property(objectText(otherMembers("list")), (text) => {
        expect(without(text, "list")).toBe(text);
      }),
    );
  });
});
