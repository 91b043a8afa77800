import { describe, expect, it } from "vitest";
import { Checker } from "../../../src/policy/arguments/checker.ts";
import { ArgumentCheckBench } from "../../support/argument-check-bench.ts";

const DRAFT_07 = "http://json-schema.org/draft-07/schema#";
/** Enough for three threads that exceed the CPU time, and some that a busy machine slows down. */
const MAX_ANSWERS = 10;
const TOO_LONG = ["the arguments take too long to be checked"];
const CATASTROPHIC = { properties: { a: { pattern: "^(a+)+$" } } };
const MANY_AS = `${"a".repeat(50_000)}!`;

function manyOf<Value>(length: number, create: (index: number) => Value): Value[] {
  return Array.from({ length }, (_unused, index) => create(index));
}

/** Takes 2^40 steps for any value. */
const ENDLESS = {
  ...Object.fromEntries(
    Array.from({ length: 40 }, (_unused, index) => [
      `d${index}`,
      { allOf: [{ $ref: `#/$defs/d${index + 1}` }, { $ref: `#/$defs/d${index + 1}` }] },
    ]),
  ),
  d40: {},
};

/** Returns the number of turns of the event loop meanwhile. */
async function countTurns(work: Promise<unknown>): Promise<number> {
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  await work;
  clearInterval(timer);
  return turns;
}

describe("a check that takes too long", () => {
  it.each<[name: string, schema: unknown, args: unknown]>([
    ["a pattern that goes back and forth", CATASTROPHIC, { a: MANY_AS }],
    [
      "a long list of values",
      { properties: { a: { items: { enum: manyOf(5000, (index) => index.toString(36)) } } } },
      { a: manyOf(300_000, () => (4999).toString(36)) },
    ],
  ])("the check is given up while the sidecar goes on: %s", async (_name, schema, args) => {
    const check = new ArgumentCheckBench();
    expect(await check.problems(schema, {})).toEqual([]);
    const answer = check.problems(schema, args);
    expect(await countTurns(answer)).toBeGreaterThan(5);
    expect(await answer).toEqual(TOO_LONG);
    expect([check.givenUp, check.log.messages]).toEqual([1, ["argument check given up"]]);
  });

  it("a slow check delays the calls of another caller by one turn", async () => {
    const check = new ArgumentCheckBench();
    const order: string[] = [];
    const ask = (caller: object, name: string, a: string): Promise<unknown> =>
      check.problemsOf([{ name: "tool", inputSchema: CATASTROPHIC }], JSON.stringify({ a }), caller).then(() => order.push(name));
    const [flood, other] = [{}, {}];
    await Promise.all([
      ...manyOf(4, (index) => ask(flood, `flood ${index}`, MANY_AS)),
      ask(other, "other", "a"),
      ask(other, "other 2", "a"),
    ]);
    expect(order.slice(0, 2)).toEqual(["flood 0", "other"]);
    expect(order.indexOf("other 2")).toBe(3);
  });

  it("a slow check that is no longer wanted stops without an answer", async () => {
    const check = new ArgumentCheckBench();
    const [first, second] = [check.askInVain(CATASTROPHIC, { a: MANY_AS }), check.askInVain({}, {})];
    expect(await check.problems({ required: ["a"] }, {})).toEqual(["`a` is required"]);
    expect([first(), second()]).toEqual([false, false]);
  });
});

describe("a schema that takes too long by itself", () => {
  it.each<[name: string, schema: unknown]>([
    ["to be applied to anything", { allOf: [{ $ref: "#/$defs/d0" }], $defs: ENDLESS }],
    ["to be compiled", { dependentRequired: { k: manyOf(8000, (index) => `r${index}`) } }],
  ])("the schema is skipped after three threads were given up: %s", async (_name, inputSchema) => {
    const check = new ArgumentCheckBench();
    const answers: (readonly string[])[] = [];
    do answers.push(await check.problems(inputSchema, { a: 1 }));
    while (answers.at(-1)?.length !== 0 && answers.length < MAX_ANSWERS);
    expect(answers.slice(0, -1)).toEqual(answers.slice(1).map(() => TOO_LONG));
    expect(await check.problems(inputSchema, { a: 1 })).toEqual([]);
    // A busy machine may exceed the time limit as well, which does not count against the schema.
    const ends = check.log.lines.filter(({ fields }) => !String(fields["reason"]).endsWith("ms"));
    expect(ends.map(({ message }) => message)).toEqual(["argument check given up", "argument check given up", "argument schema skipped"]);
    expect(ends.at(-1)?.fields["reason"]).toContain("it takes too long");
    expect(await check.problems({ required: ["b"] }, {})).toEqual(["`b` is required"]);
  });
});

describe("arguments that a validator cannot take", () => {
  it("deeply nested arguments are rejected, and the check stays on", async () => {
    const check = new ArgumentCheckBench();
    const depth = 100_000;
    const tree = { $defs: { node: { properties: { a: { $ref: "#/$defs/node" }, b: { type: "string" } } } }, $ref: "#/$defs/node" };
    const argsText = `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;
    expect(await check.problemsOf([{ name: "tool", inputSchema: tree }], argsText)).toEqual(["the arguments are nested too deeply"]);
    expect(await check.problems(tree, { a: { a: 1 } })).toEqual([]);
    expect(await check.problems(tree, { b: 1 })).toEqual(["`b` must be a string, not a number"]);
    expect(await check.problemsOf([{ name: "tool", inputSchema: { properties: { a: { type: "object" } } } }], argsText)).toEqual([]);
    expect(check.log.lines).toEqual([]);
  });

  it.each(["valueOf", "toString", "constructor", "__proto__", "hasOwnProperty"])(
    "arguments with a member `%s` are rejected, and the check stays on",
    async (name) => {
      const check = new ArgumentCheckBench();
      const schema = { properties: { a: { enum: [{ x: 1 }, "off"] }, b: { const: { x: 1 } }, c: { type: "string" } } };
      for (const member of ["a", "b"]) {
        expect(await check.problemsOf([{ name: "tool", inputSchema: schema }], `{"${member}":{"${name}":1}}`)).toHaveLength(1);
      }
      expect(await check.problems(schema, { a: { x: 1 }, b: { x: 1 } })).toEqual([]);
      expect(await check.problems(schema, { c: 1 })).toEqual(["`c` must be a string, not a number"]);
      expect(check.log.lines).toEqual([]);
    },
  );

  it("arguments that take too much memory are rejected", async () => {
    const check = new ArgumentCheckBench();
    const argsText = `{"a":[${"{},".repeat(3_000_000)}1]}`;
    expect(await check.problemsOf([{ name: "tool", inputSchema: {} }], argsText)).toEqual([
      "the arguments have too many values to be checked",
    ]);
    expect(check.givenUp).toBe(0);
  });
});

describe("a hostile schema", () => {
  it("a schema cannot run code", () => {
    const checker = new Checker();
    const payloads = [
      '"]; globalThis.isInjected = true; //',
      "${globalThis.isInjected = true}",
      "\u2028globalThis.isInjected=true",
      "*/globalThis.isInjected=true/*",
      "'); globalThis.isInjected = true; ('",
    ];
    for (const payload of payloads) {
      const schemas = [
        { properties: { [payload]: { type: "string" } }, required: [payload], additionalProperties: false },
        { $id: payload, $anchor: "a", $comment: payload, title: payload },
        {
          $defs: { [payload]: { type: "string" } },
          properties: { a: { $ref: `#/$defs/${encodeURIComponent(payload).replaceAll("~", "~0")}` } },
        },
        { $dynamicAnchor: payload, $dynamicRef: `#${payload}` },
        { enum: [payload], const: payload, default: payload, format: payload, pattern: payload },
        { patternProperties: { [payload]: false }, dependentRequired: { [payload]: [payload] }, dependentSchemas: { [payload]: false } },
        { maximum: payload, minLength: payload, multipleOf: { $data: payload }, [payload]: true },
        { maxLength: { $data: `1/${payload}` }, type: payload },
        { $schema: DRAFT_07, dependencies: { [payload]: [payload] }, contentEncoding: payload },
        { discriminator: { propertyName: payload }, oneOf: [{ properties: { [payload]: { const: payload } } }], nullable: payload },
      ];
      for (const schema of schemas) {
        checker.add("key", JSON.stringify(schema));
        for (const args of [{}, { [payload]: payload }, { a: payload }]) checker.check(["key"], JSON.stringify(args));
      }
    }
    expect(globalThis).not.toHaveProperty("isInjected");
    expect(({} as Record<string, unknown>)["isInjected"]).toBeUndefined();
  });
});
