import { describe, expect, it } from "vitest";
import { formSchemaOf, parsedObject } from "../../src/page/form-schema.ts";
import { updatedModel } from "../../src/page/connection.ts";
import { visibleLines } from "../../src/page/format.ts";
import { beginning, escapeInvisible } from "../../src/json/text.ts";
import type { PageState, PageUpdate } from "../../src/http/page-update.ts";

describe("the schema of a form", () => {
  it("known keywords are kept, and all others are omitted at each depth", () => {
    const hidden = { pattern: "^(a+)+$", format: "url", "ui:widget": "hidden", unevaluatedProperties: {}, dependencies: {}, $id: "x" };
    const schema = { type: "object", ...hidden, properties: { a: { type: "string", minLength: 2, ...hidden } }, required: ["a"] };
    expect(formSchemaOf(schema)).toEqual({ type: "object", properties: { a: { type: "string", minLength: 2 } }, required: ["a"] });
  });

  it("the target of a reference takes its place, without the keywords that are omitted", () => {
    const properties = { a: { $ref: "#/$defs/a", title: "A" }, b: { $ref: "#/x/b" } };
    const schema = { properties, $defs: { a: { $ref: "#/x/b", minLength: 1 } }, x: { b: { type: "string", pattern: "^(a+)+$" } } };
    const copy = { type: "object", properties: { a: { type: "string", minLength: 1, title: "A" }, b: { type: "string" } } };
    expect(formSchemaOf(schema)).toEqual(copy);
  });

  it.each([
    ["a list", [1]],
    ["a schema of a string", { type: "string" }],
    ["a reference to itself", { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/a" } } }],
    ["a reference to another document", { properties: { a: { $ref: "https://example.org/a" } } }],
    ["a reference to a default", { properties: { a: { default: { type: "string" } }, b: { $ref: "#/properties/a/default" } } }],
    ["a reference to what is missing", { properties: { a: { $ref: "#/x/a" } } }],
    ["too many properties", { properties: Object.fromEntries(Array.from({ length: 501 }, (_, index) => [`p${index}`, {}])) }],
    ["too many required items", { properties: { a: { type: "array", minItems: 21, items: {} } } }],
    ["alternatives that multiply", { allOf: Array.from({ length: 14 }, () => ({ anyOf: [{}, {}, {}, {}] })) }],
    ["a property named __proto__", JSON.parse('{"properties":{"__proto__":{}}}')],
  ])("%s has no form", (_what, schema: unknown) => {
    expect(formSchemaOf(schema)).toEqual(expect.any(String));
  });
});

describe("the JSON of arguments", () => {
  it("a large integer keeps its digits", () => {
    expect(JSON.stringify(parsedObject('{"n":12345678901234567890,"m":1.50}', true))).toBe('{"n":12345678901234567890,"m":1.50}');
  });

  it.each(["[]", "5", "null", "{"])("%s is an error", (text) => {
    expect(parsedObject(text, false)).toEqual(expect.any(String));
  });
});

describe("texts of a server", () => {
  it("invisible characters are shown as escapes", () => {
    expect(escapeInvisible("a\u202Eb\u200B\u{E0041}\uFE00\n")).toBe(String.raw`a\u202eb\u200b\udb40\udc41\ufe00\u000a`);
    expect(visibleLines("a\tb\r\nc\u001B[2J")).toBe(`a\tb\nc${String.raw`\u001b`}[2J`);
    expect(beginning("a\u{1F600}", 2)).toBe("a");
  });
});

describe("the model of the page", () => {
  const update = (requests: number): PageUpdate => ({
    state: { state: "ready" } as PageState,
    seconds: [],
    requests: Array.from({ length: requests }, () => ({ at: 0, method: null, tool: null, durationMs: null, ending: "results" as const })),
    logLines: [],
    generations: undefined,
  });

  it("the first update of a connection replaces the history, and later ones are added up to its limit", () => {
    const first = updatedModel(undefined, update(150));
    const second = updatedModel(first, update(100));
    expect([first.requests.length, second.requests.length]).toEqual([150, 200]);
    expect(second.requests.at(-1)?.key).toBe(249);
  });
});
