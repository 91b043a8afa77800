import { describe, expect, it } from "vitest";
import { isOtherCase } from "../../../src/json/names.ts";
import { findMembers } from "../../../src/json/find.ts";

describe("isOtherCase", () => {
  it.each([
    ["Name", "name", true],
    ["NAME", "name", true],
    ["name", "name", false],
    ["names", "name", false],
    ["nam", "name", false],
    ["namf", "name", false],
    ["inputschema", "inputSchema", true],
    ["INPUTSCHEMA", "inputSchema", true],
    ["argumentſ", "arguments", true],
    ["taſ\u212a", "task", true],
    ["ıd", "id", true],
    ["İD", "id", true],
    ["_Meta", "_meta", true],
    // Each pair differs by the bit that distinguishes upper and lower case.
    ["\u007fmeta", "_meta", false],
    ["@", "`", false],
    ["{", "[", false],
    ["näme", "name", false],
    ["", "", false],
  ])("%j for %j: %j", (key, name, expected) => {
    expect(isOtherCase(key, name)).toBe(expected);
  });
});

describe("findMembers", () => {
  it.each([
    ['{"name":1,"Name":2,"NAME":3}', "Name"],
    ['{"\\u004eame":2}', "Name"],
    ['{"name":{"Name":1},"x":["Name"],"y":"Name"}', undefined],
    ['{"name":1,"\\u006eame":2}', undefined],
    ['{"argument\\u017f":2}', "argumentſ"],
    ['{"argumentſ":2}', "argumentſ"],
    ["{}", undefined],
  ])("the member of %s that some readers take for one of the names is returned", (text, expected) => {
    expect(findMembers(text, 0, ["name", "arguments"]).otherCase).toBe(expected);
  });
});
