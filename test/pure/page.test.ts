import { describe, expect, it } from "vitest";
import { argumentsOf, fieldsOf, parsedObject } from "../../src/page/fields.ts";
import { figuresOf, outagesOf, toolFigures } from "../../src/page/figures.ts";
import { updatedModel } from "../../src/page/connection.ts";
import { visibleLines } from "../../src/page/format.ts";
import { beginning, escapeInvisible } from "../../src/json/text.ts";
import type { PageGeneration, PageRequest, PageState, PageUpdate } from "../../src/http/page-update.ts";

describe("the fields of a form", () => {
  /** Returns the kind and the first text of each field. */
  const shown = (schema: unknown, isFilled = true) =>
    Object.fromEntries((fieldsOf(schema, isFilled) ?? []).map(({ name, kind, initial }) => [name, [kind, initial]]));
  const types = {
    type: "object",
    properties: {
      text: { type: "string", minLength: 9 },
      mail: { anyOf: [{ type: "null" }, { type: "string", format: "email" }] },
      count: { type: ["integer", "null"], minimum: 5 },
      flag: { type: "boolean" },
      choice: { $ref: "#/$defs/a~1b" },
      titled: { oneOf: [{ const: 1, title: "one" }, { const: 2 }] },
      items: { type: "array", items: { $ref: "#/$defs/point" } },
      any: { anyOf: [{ type: "string" }, { type: "number" }] },
      given: { type: "string", default: "as given", examples: ["other"] },
      like: { type: "number", examples: [0.5] },
      wish: { type: "string" },
    },
    required: ["text", "mail", "count", "flag", "choice", "titled", "items", "any", "given", "like"],
    $defs: {
      "a/b": { enum: ["red", "blue"] },
      point: { type: "object", properties: { x: { type: "number", maximum: -1 }, y: { type: "number" } }, required: ["x"] },
    },
  };

  it("each property has a field for its type, and a required one a sample", () => {
    expect(shown(types)).toEqual({
      text: ["text", "exampleee"],
      mail: ["text", "name@example.org"],
      count: ["number", "5"],
      flag: ["boolean", "false"],
      choice: ["choice", '"red"'],
      titled: ["choice", "1"],
      items: ["json", '[{"x":-1}]'],
      any: ["json", '"example"'],
      given: ["text", "as given"],
      like: ["number", "0.5"],
      wish: ["text", ""],
    });
  });

  it("a question has no samples, but defaults", () => {
    const filled = Object.entries(shown(types, false)).filter(([, [, text]]) => text !== "");
    expect(filled).toEqual([["given", ["text", "as given"]]]);
  });

  it.each([
    ["a list", [1]],
    ["a schema of a string", { type: "string" }],
    ["alternatives", { anyOf: [{}, {}], properties: { a: {} } }],
    ["a reference to itself", { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/a" } } }],
    ["any properties", { type: "object", additionalProperties: { type: "string" } }],
    ["too many properties", { properties: Object.fromEntries(Array.from({ length: 501 }, (_, index) => [`p${index}`, {}])) }],
  ])("%s has no fields", (_what, schema: unknown) => {
    expect(fieldsOf(schema, true)).toBeUndefined();
  });

  it("arguments have the values of all fields with a text, numbers as they are typed", () => {
    const fields = fieldsOf(types, true) ?? [];
    const texts = new Map([
      ...fields.map(({ name }) => [name, ""] as const),
      ["text", '"'],
      ["count", "12345678901234567890"],
      ["like", ".5"],
    ]);
    expect(JSON.stringify(argumentsOf(fields, texts))).toBe('{"text":"\\"","count":12345678901234567890,"like":0.5}');
    expect(argumentsOf(fields, new Map([["any", "{"]]))).toEqual(expect.any(String));
  });
});

const request = (ending: PageRequest["ending"], durationMs: number | null, tool: string | null): PageRequest => ({
  at: 0,
  method: "tools/call",
  tool,
  durationMs,
  ending,
  isError: ending !== "results" && ending !== "dismissed",
});

describe("the figures of requests and runs", () => {
  it("each tool has its calls, errors and the duration that 95 % of them do not exceed", () => {
    const requests = Array.from({ length: 20 }, (_, index) => request("results", index + 1, "a"));
    requests.push(
      request("tool_error", 5, "b"),
      request("REQUEST_TIMEOUT", null, "b"),
      request("dismissed", 3, "b"),
      request("errors", 1, null),
    );
    expect(Object.fromEntries(toolFigures(requests))).toEqual({
      a: { calls: 20, errors: 0, p95Ms: 19 },
      b: { calls: 3, errors: 2, p95Ms: 5 },
    });
    expect(figuresOf([])).toEqual({ calls: 0, errors: 0, p95Ms: undefined });
  });

  it("the server is not ready from its start, and from each exit, until it is ready", () => {
    const run = (startedAt: number, readyAt: number | null, end?: number, kind = "crash"): PageGeneration => ({
      lane: "shared",
      number: 1,
      startedAt,
      readyAt,
      exit:
        end === undefined ? null : ({ kind, reason: `at ${end}`, at: new Date(end).toISOString() } as NonNullable<PageGeneration["exit"]>),
    });
    const runs = [run(10, 20, 30), run(35, null, 40), run(45, 50, 60, "stopped"), run(65, null)];
    expect(outagesOf(runs, 70)).toEqual([
      { from: 10, to: 20, reason: undefined },
      { from: 30, to: 50, reason: "at 40" },
      { from: 60, to: 70, reason: undefined },
    ]);
    expect(outagesOf(runs.slice(0, 1), 70).at(-1)).toEqual({ from: 30, to: 70, reason: "at 30" });
    expect(outagesOf([run(10, 20)], 70)).toHaveLength(1);
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
    requests: Array.from({ length: requests }, () => request("results", null, null)),
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
