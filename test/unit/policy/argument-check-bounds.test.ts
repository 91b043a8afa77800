import { describe, expect, it } from "vitest";
import { ArgumentCheck } from "../../../src/policy/argument-check.ts";
import { RecordedLog } from "../../support/recorded-log.ts";

async function createBench() {
  const log = new RecordedLog();
  const check = new ArgumentCheck(log);
  await check.load();
  const problems = (inputSchema: unknown, args: unknown): readonly string[] => check.problems({ name: "tool", inputSchema }, args);
  // The metaschema is compiled with the first schema.
  problems({}, {});
  return { log, problems };
}

function manyOf<Value>(length: number, create: (index: number) => Value): Value[] {
  return Array.from({ length }, (_, index) => create(index));
}

function nested(levels: number): object {
  let value = {};
  for (let level = 0; level < levels; level++) value = { child: value };
  return value;
}

/** Many times what it takes, and far less than without a bound. */
const BOUND_MS = 2000;

function durationOf(work: () => void): number {
  const started = performance.now();
  work();
  return performance.now() - started;
}

describe("the work of a check is bounded", () => {
  it.each([
    [
      "a long list of values",
      { properties: { a: { items: { enum: manyOf(20_000, (index) => index.toString(36)) } } } },
      manyOf(100_000, () => (19_999).toString(36)),
    ],
    [
      "lengths of a text, many times",
      { properties: { a: { items: { allOf: manyOf(300, (index) => ({ maxLength: 1e6 + index })) } } } },
      manyOf(500, () => "x".repeat(20_000)),
    ],
    [
      "numbers of members, many times",
      { properties: { a: { items: { allOf: manyOf(300, (index) => ({ maxProperties: 1e6 + index })) } } } },
      manyOf(200, () => Object.fromEntries(manyOf(1000, (index) => [`k${index}`, 1]))),
    ],
  ])("with %s", async (_, schema, a) => {
    const { problems } = await createBench();
    problems(schema, {});
    expect(durationOf(() => problems(schema, { a }))).toBeLessThan(BOUND_MS);
  });

  it("takes values of a common list without a limit", async () => {
    const { problems } = await createBench();
    const schema = { properties: { a: { items: { enum: manyOf(500, (index) => `zone/${index}`) } } } };
    expect(problems(schema, { a: manyOf(100_000, () => "zone/499") })).toEqual([]);
    expect(problems(schema, { a: ["zone/499", "zone/500"] })[0]).toMatch(/^`a\[1\]` must be one of/);
  });

  it.each([
    [
      "patterns that are many instructions",
      { patternProperties: Object.fromEntries(manyOf(1000, (index) => [`(x{1,99}){0,24}${index}`, true])) },
    ],
    ["names that depend on one", { dependentRequired: { k: manyOf(4000, (index) => `r${index}`) } }],
    ["forms of which one is to be chosen", { oneOf: manyOf(1400, (index) => ({ minLength: index })) }],
    [
      "patterns of names besides others",
      { patternProperties: Object.fromEntries(manyOf(5000, (index) => [`^p${index}`, true])), additionalProperties: false },
    ],
  ])("skips a schema with too many %s", async (_, schema) => {
    const { log, problems } = await createBench();
    expect(durationOf(() => expect(problems(schema, { a: 1 })).toEqual([]))).toBeLessThan(BOUND_MS);
    expect(log.lines.map(({ message, fields }) => [message, fields["reason"]])).toEqual([["argument schema skipped", "it takes too long"]]);
  });
});

describe("arguments do not switch the check off", () => {
  it.each(["valueOf", "toString", "constructor", "__proto__", "hasOwnProperty"])(
    "with a member `%s` where values are compared",
    async (name) => {
      const { log, problems } = await createBench();
      const schema = { properties: { a: { enum: [{ x: 1 }, "off"] }, b: { const: { x: 1 } }, c: { type: "string" } } };
      for (const member of ["a", "b"]) expect(problems(schema, JSON.parse(`{"${member}":{"${name}":1}}`))).toHaveLength(1);
      expect(problems(schema, { a: { x: 1 }, b: { x: 1 } })).toEqual([]);
      expect(problems(schema, { c: 1 })).toEqual(["`c` must be a string, not a number"]);
      expect(log.lines).toEqual([]);
    },
  );

  it("by levels that a large schema has no stack for", async () => {
    const { log, problems } = await createBench();
    const names = Object.fromEntries(manyOf(1000, (index) => [`p${index}`, { type: "string" }]));
    const schema = { properties: { child: { $ref: "#" }, ...names }, additionalProperties: false };
    problems(schema, nested(99));
    expect(problems(schema, { p1: 1 })).toEqual(["`p1` must be a string, not a number"]);
    expect(log.lines).toEqual([]);
  });
});
