import { describe, expect, it } from "vitest";
import { applyEdits, removeMember } from "../../../src/json/edit.ts";
import { findMembers, findPath } from "../../../src/json/find.ts";
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
