import { describe, expect, it } from "vitest";
import { ArgumentCheckBench } from "../../support/argument-check-bench.ts";
import { Checker } from "../../../src/policy/checker.ts";
import * as fc from "fast-check";
import { invalidArgumentsResult } from "../../../src/policy/tool-policy.ts";

const DRAFT_07 = "http://json-schema.org/draft-07/schema#";

const bench = new ArgumentCheckBench();

function problems(inputSchema: unknown, args: unknown): Promise<readonly string[]> {
  return bench.problems(inputSchema, args);
}

describe("the arguments of a call", () => {
  const schema = {
    type: "object",
    properties: { path: { type: "string" }, limit: { type: "integer", minimum: 1, maximum: 100 }, mode: { enum: ["fast", "slow"] } },
    required: ["path"],
    additionalProperties: false,
  };

  it("each wrong field is named", async () => {
    expect(await problems(schema, { limit: "many", mode: "other", pth: "a" })).toEqual([
      "the arguments must have required property 'path'",
      'the arguments must NOT have additional properties: "pth"',
      '"limit" must be integer',
      '"mode" must be equal to one of the allowed values: ["fast","slow"]',
    ]);
  });

  it.each([null, [], "text", 1, true])("the arguments %j are rejected as not an object", async (args) => {
    expect(await problems(schema, args)).toEqual(["the arguments must be an object"]);
    expect(await problems(undefined, args)).toEqual(["the arguments must be an object"]);
  });

  it("problems never contain the values of arguments", async () => {
    const secret = "hunter2-secret";
    const schemas: unknown[] = [{ type: "integer" }, { enum: ["x"] }, { const: "x" }, { pattern: "^x$", maxLength: 2 }, false];
    schemas.push({ contains: { const: 1 }, type: "array" }, { anyOf: [{ const: 1 }, { type: "object" }] }, { not: { type: "string" } });
    const all = await Promise.all(schemas.map((a) => problems({ properties: { a } }, { a: secret })));
    for (const lines of all) expect(lines.length).toBeGreaterThan(0);
    expect(JSON.stringify(all)).not.toContain(secret);
  });
});

describe("the problem of a field", () => {
  it.each<[name: string, schema: object, value: unknown, problem: string]>([
    ["an item", { items: { properties: { id: { type: "integer" } } } }, [{ id: 1 }, { id: "x" }], '"a.1.id" must be integer'],
    ["required, nested", { required: ["b"] }, {}, "\"a\" must have required property 'b'"],
    [
      "anyOf of types",
      { anyOf: [{ type: "string" }, { type: "null" }] },
      5,
      '"a" must match a schema in anyOf: "a" must be string; or "a" must be null',
    ],
    [
      "anyOf, one of the right type",
      { anyOf: [{ type: "object", required: ["b"] }, { type: "null" }] },
      {},
      `"a" must match a schema in anyOf: "a" must have required property 'b'; or "a" must be null`,
    ],
    [
      "anyOf of constants",
      { anyOf: [{ const: "x" }, { const: "y" }] },
      "z",
      '"a" must match a schema in anyOf: "a" must be equal to constant: "x"; or "a" must be equal to constant: "y"',
    ],
    ["oneOf, more than one matches", { oneOf: [{ type: "number" }, { minimum: 1 }] }, 3, '"a" must match exactly one schema in oneOf'],
    ["a text with a line break in the schema", { required: ["b\nc"] }, {}, `"a" must have required property 'b\\u000ac'`],
    [
      "anyOf of forms",
      { anyOf: [{ required: ["b"] }, { required: ["c"] }] },
      {},
      `"a" must match a schema in anyOf: "a" must have required property 'b'; or "a" must have required property 'c'`,
    ],
  ])("the problem is plain: %s", async (_name, property, value, problem) => {
    expect(await problems({ type: "object", properties: { a: property } }, { a: value })).toEqual([problem]);
  });

  it.each<[name: string, schema: object, value: unknown, problem: string]>([
    ["contains", { contains: { type: "string" } }, [1, 2], '"a" must contain at least 1 valid item(s)'],
    ["if", JSON.parse('{"if":{},"then":{"minLength":3}}') as object, "x", '"a" must NOT have fewer than 3 characters'],
    ["a name", { propertyNames: { maxLength: 2 } }, { long: 1 }, '"a" property name must be valid: "long"'],
  ])("the problem is among the lines: %s", async (_name, property, value, problem) => {
    expect(await problems({ properties: { a: property } }, { a: value })).toContain(problem);
  });

  it("problems are limited in number and length", async () => {
    const names = Array.from({ length: 50 }, (_unused, index) => `${"n".repeat(400)}${index}`);
    const lines = await problems(
      { additionalProperties: false, properties: { ok: {} } },
      Object.fromEntries(names.map((name) => [name, 1])),
    );
    expect(lines).toHaveLength(21);
    const distinct = await problems({ additionalProperties: false }, Object.fromEntries(names.map((_name, index) => [`n${index}`, 1])));
    expect(distinct).toHaveLength(21);
    expect(distinct.at(-1)).toBe("and 30 more");
    for (const line of [...lines, ...distinct]) expect(line.length).toBeLessThanOrEqual(501);
  });
});

describe("a schema", () => {
  it("a schema may be one of draft-07", async () => {
    const definitions = { id: { type: "integer" } };
    const properties = { a: { items: [{ type: "string" }], additionalItems: false }, id: { $ref: "#/definitions/id", minimum: 7 } };
    const schema = { $schema: DRAFT_07, definitions, properties, dependencies: { b: ["c"] } };
    expect(await problems(schema, { a: [1, 2], b: 1, id: "x" })).toEqual([
      "the arguments must have property c when property b is present",
      '"a" must NOT have more than 1 items',
      '"a.0" must be string',
      '"id" must be integer',
    ]);
    // Keywords beside a reference are ignored, and later ones unknown.
    expect(await problems({ ...schema, dependentRequired: { d: ["e"] } }, { a: ["x"], b: 1, c: 1, d: 1, id: 1 })).toEqual([]);
  });

  it.each<[schema: object, value: unknown, problems: number]>([
    [{ type: "string", format: "email", "x-hint": 1 }, "no", 0],
    [{ multipleOf: 0.01 }, 19.99, 0],
    [{ multipleOf: 0.01 }, 0.005, 1],
    [{ pattern: "^(?!x)(.)\\1" }, "bb", 0],
    [{ pattern: "^(?!x)(.)\\1" }, "xx", 1],
  ])("the schema %j gives the value %j %i problems", async (property, value, count) => {
    expect(await problems({ properties: { a: property } }, { a: value })).toHaveLength(count);
  });

  it("inherited names of JavaScript do not confuse the check", async () => {
    expect(await problems({ properties: { constructor: { type: "string" } } }, {})).toEqual([]);
    expect(await problems({ required: ["toString"] }, {})).toEqual(["the arguments must have required property 'toString'"]);
    expect(
      await problems({ additionalProperties: false, properties: { a: {} } }, JSON.parse('{"__proto__": 1, "constructor": 2}')),
    ).toHaveLength(2);
  });

  it.each<[reason: string, schema: unknown]>([
    ["it is not an object", true],
    ["it is not a JSON Schema", { type: "strin" }],
    ["can't resolve reference", { $ref: "https://example.com/other.json" }],
    ["can't resolve reference", { properties: { a: { $ref: "#/$defs/none" } } }],
    ["its dialect", { $schema: "http://json-schema.org/draft-04/schema#" }],
    ["its dialect", { $schema: "toString" }],
    ["asynchronous", { $async: true }],
    ["longer than", { description: "x".repeat(300_000) }],
    ["subschemas", JSON.parse(`${'{"not":'.repeat(20_000)}{}${"}".repeat(20_000)}`)],
    ["subschemas", { allOf: Array.from({ length: 4000 }, () => ({})) }],
    ["Invalid regular expression", { properties: { a: { pattern: "(?i)a" } } }],
    ["Invalid regular expression", { patternProperties: { "(?i)a": {} }, additionalProperties: false }],
    ["Maximum call stack", { $ref: "#" }],
  ])("an unusable schema is skipped and logged once: %s", async (reason, inputSchema) => {
    const check = new ArgumentCheckBench();
    const name = `n${"x".repeat(200)}`;
    for (let call = 0; call < 3; call++) expect(await check.problemsOf([{ name, inputSchema }], '{"a":1}')).toEqual([]);
    const fields = { tool: `${name.slice(0, 100)}…`, reason: expect.stringContaining(reason) as string };
    expect(check.log.lines).toEqual([{ level: "warn", message: "argument schema skipped", fields }]);
    expect(check.givenUp).toBe(0);
  });

  it("more schemas than a thread holds are still checked, each time", async () => {
    const check = new ArgumentCheckBench();
    const schemas = manyOf(12, (index) => ({ properties: { a: { const: index } }, description: "x".repeat(200_000) }));
    for (const schema of [...schemas, ...schemas]) expect(await check.problems(schema, { a: -1 })).toHaveLength(1);
    expect(check.log.lines).toEqual([]);
  });
});

/** Enough for three threads that exceed the CPU time, and some that a busy machine slows down. */
const MAX_ANSWERS = 10;
const TOO_LONG = ["the arguments take too long to be checked"];

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
    expect(await check.problems({ required: ["b"] }, {})).toEqual(["the arguments must have required property 'b'"]);
  });
});

describe("arguments that a validator cannot take", () => {
  it("deeply nested arguments are rejected, and the check stays on", async () => {
    const check = new ArgumentCheckBench();
    const depth = 100_000;
    const tree = { $defs: { node: { properties: { a: { $ref: "#/$defs/node" }, b: { type: "string" } } } }, $ref: "#/$defs/node" };
    const argsText = `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;
    const reason = "they are nested too deeply, or it refers to itself without end";
    const expected = [`the arguments cannot be checked against the schema: ${reason}`];
    expect(await check.problemsOf([{ name: "tool", inputSchema: tree }], argsText)).toEqual(expected);
    expect(await check.problems(tree, { a: { a: 1 } })).toEqual([]);
    expect(await check.problems(tree, { b: 1 })).toEqual(['"b" must be string']);
    expect(await check.problemsOf([{ name: "tool", inputSchema: { properties: { a: { type: "object" } } } }], argsText)).toEqual([]);
    expect(check.log.lines).toEqual([]);
  });

  it.each(["valueOf", "__proto__"])("arguments with a member `%s` are rejected, and the check stays on", async (name) => {
    const check = new ArgumentCheckBench();
    const schema = { properties: { a: { enum: [{ x: 1 }, "off"] }, b: { const: { x: 1 } }, c: { type: "string" } } };
    for (const member of ["a", "b"]) {
      expect(await check.problemsOf([{ name: "tool", inputSchema: schema }], `{"${member}":{"${name}":1}}`)).toHaveLength(1);
    }
    expect(await check.problems(schema, { a: { x: 1 }, b: { x: 1 } })).toEqual([]);
    expect(await check.problems(schema, { c: 1 })).toEqual(['"c" must be string']);
    expect(check.log.lines).toEqual([]);
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
        { $id: payload, $anchor: "a", $comment: payload, title: payload, $dynamicAnchor: payload, $dynamicRef: `#${payload}` },
        { enum: [payload], const: payload, default: payload, format: payload, pattern: payload, type: payload, [payload]: true },
        { patternProperties: { [payload]: false }, dependentRequired: { [payload]: [payload] }, dependentSchemas: { [payload]: false } },
        { maximum: payload, minLength: payload, multipleOf: { $data: payload }, maxLength: { $data: `1/${payload}` } },
        { $schema: DRAFT_07, dependencies: { [payload]: [payload] }, contentEncoding: payload },
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

const KEYWORDS =
  "$schema $id $ref $defs $anchor $dynamicRef $dynamicAnchor $async $comment $vocabulary definitions type enum const properties required " +
  "additionalProperties patternProperties propertyNames items prefixItems additionalItems contains minContains maxContains uniqueItems " +
  "unevaluatedProperties unevaluatedItems dependencies dependentRequired not if then else allOf anyOf oneOf minimum multipleOf minLength " +
  "pattern format nullable discriminator id $recursiveRef $data __proto__";

/** A schema-like object: keywords with values of any kind, right and wrong. */
const schemaLike = fc.letrec<{ schema: unknown; value: unknown }>((tie) => ({
  schema: fc.oneof({ maxDepth: 4 }, fc.boolean(), fc.dictionary(fc.constantFrom(...KEYWORDS.split(" ")), tie("value"), { maxKeys: 4 })),
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom<unknown>(..."object string # #/$defs/a a ^a+$ (?=a) [ __proto__ constructor".split(" "), 0, 1, -1, 1.5, true, null),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom("a", "b", "toString", "__proto__"), tie("schema"), { maxKeys: 3 }),
    fc.array(tie("schema"), { maxLength: 3 }),
    tie("schema"),
  ),
})).schema;

const anyArguments = fc.oneof(
  fc.jsonValue(),
  fc.dictionary(fc.constantFrom("a", "b", "__proto__", "toString", "constructor"), fc.jsonValue()),
  fc.constant(undefined),
);

describe("any JSON at all", () => {
  it("any JSON is used or skipped as a schema without an error", async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(schemaLike, fc.jsonValue()), anyArguments, async (inputSchema, args) => {
        const found = await problems(inputSchema, args);
        for (const problem of found) expect(problem).toMatch(/^[^\n]{1,501}$/);
        expect(JSON.parse(invalidArgumentsResult("tool", found))).toHaveProperty("isError", true);
      }),
      { numRuns: 1000 },
    );
    expect(({} as Record<string, unknown>)["a"]).toBeUndefined();
  });
});
