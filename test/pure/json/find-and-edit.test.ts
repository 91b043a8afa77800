import { expect, it } from "vitest";
import { applyEdits, removeMember } from "../../../src/json/edit.ts";

function without(text: string, name: string): string {
  return applyEdits(text, removeMember(text, 0, name));
}

it.each([
  [`{"list":{}}`, `{}`],
  [`{"a":1 ,"list":{} , "b":2}`, `{"a":1 ,"b":2}`],
  [`{"list":1,"a":0,"list":2,"list":3}`, `{"a":0}`],
  [String.raw`{"list":"\"},{" , "x":"list"}`, `{"x":"list"}`],
  [String.raw`{"l\u0069st":[1,{"list":2}],"b":{"list":3}}`, `{"b":{"list":3}}`],
])("%s becomes %s", (text, expected) => {
  expect(without(text, "list")).toBe(expected);
});
