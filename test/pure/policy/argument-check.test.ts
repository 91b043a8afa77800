import { describe, expect, it } from "vitest";
import { ArgumentCheckBench } from "../../support/argument-check-bench.ts";

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
      "`path` is required (a string)",
      '`pth` is unknown; known names: "path", "limit", "mode"',
      "`limit` must be an integer, not a string",
      '`mode` must be one of: "fast", "slow"',
    ]);
  });

  it("missing arguments count as empty", async () => {
    expect(await problems(schema, undefined)).toEqual(["`path` is required (a string)"]);
    expect(await problems({ type: "object" }, undefined)).toEqual([]);
  });

  it.each([null, [], "text", 1, true])("the arguments %j are rejected as not an object", async (args) => {
    expect(await problems(schema, args)).toEqual(["the arguments must be an object"]);
    expect(await problems(undefined, args)).toEqual(["the arguments must be an object"]);
  });

  it("problems never contain the values of arguments", async () => {
    const secret = "hunter2-secret";
    const all = await Promise.all([
      problems({ properties: { a: { type: "integer" } } }, { a: secret }),
      problems({ properties: { a: { enum: ["x"] } } }, { a: secret }),
      problems({ properties: { a: { const: "x" } } }, { a: secret }),
      problems({ properties: { a: { pattern: "^x$", maxLength: 2 } } }, { a: secret }),
      problems({ properties: { a: { anyOf: [{ const: 1 }, { type: "object" }] } } }, { a: secret }),
      problems({ properties: { a: { uniqueItems: true, items: { not: { type: "string" } } } } }, { a: [secret, secret] }),
      problems({ properties: { a: { contains: { const: 1 } } } }, { a: [secret] }),
      problems({ properties: { a: false } }, { a: secret }),
    ]);
    for (const lines of all) expect(lines.length).toBeGreaterThan(0);
    expect(JSON.stringify(all)).not.toContain(secret);
  });
});

describe("the problem of a field", () => {
  it.each<[name: string, schema: object, value: unknown, problem: string]>([
    ["type", { type: "integer" }, 1.5, "`a` must be an integer, not a number"],
    ["type, nullable", { type: ["string", "null"] }, 5, "`a` must be a string or null, not a number"],
    ["minimum", { minimum: 1 }, 0, "`a` must be >= 1"],
    ["minLength", { minLength: 1 }, "", "`a` must have at least 1 character"],
    ["pattern", { pattern: "^\\d+$" }, "abc", '`a` must match the pattern "^\\\\d+$"'],
    ["minItems", { minItems: 2 }, [1], "`a` must have at least 2 items"],
    ["uniqueItems", { uniqueItems: true }, [{ x: 1, y: 2 }, 3, { y: 2, x: 1 }], "`a` must not have the same item twice"],
    [
      "items",
      { items: { type: "object", properties: { id: { type: "integer" } } } },
      [{ id: 1 }, { id: "x" }],
      "`a[1].id` must be an integer, not a string",
    ],
    ["required, nested", { required: ["b"] }, {}, "`a.b` is required"],
    ["unevaluatedProperties", { unevaluatedProperties: false, allOf: [{ properties: { b: {} } }] }, { b: 1, c: 1 }, "`a.c` is unknown"],
    ["dependentRequired", { dependentRequired: { b: ["c"] } }, { b: 1 }, "`a.c` is required if `b` is given"],
    ["prefixItems", { prefixItems: [{ type: "string" }], items: false, minItems: 1 }, ["x", 1], "`a` must have at most 1 item"],
    ["not", { not: { type: "string" } }, "x", "`a` matches a form that its schema excludes (`not`)"],
    // oxlint-disable-next-line unicorn/no-thenable -- a keyword
    ["if, then", { if: { required: ["b"] }, then: { required: ["c"] } }, { b: 1 }, "`a.c` is required"],
    ["anyOf of types", { anyOf: [{ type: "string" }, { type: "null" }] }, 5, "`a` must be a string or null"],
    ["anyOf, one of the right type", { anyOf: [{ type: "object", required: ["b"] }, { type: "null" }] }, {}, "`a.b` is required"],
    [
      "oneOf, told apart by a member",
      {
        oneOf: [
          { properties: { kind: { const: "x" }, x: { type: "string" } }, required: ["kind", "x"] },
          { properties: { kind: { const: "y" }, y: { type: "string" } }, required: ["kind", "y"] },
        ],
      },
      { kind: "y" },
      "`a.y` is required (a string)",
    ],
    [
      "oneOf, several fit",
      { oneOf: [{ type: "string" }, { minLength: 1 }] },
      "x",
      "`a` matches more than one form of `oneOf`; exactly one is allowed",
    ],
    [
      "anyOf of forms",
      { anyOf: [{ required: ["b"] }, { required: ["c"] }] },
      {},
      "`a` matches none of 2 allowed forms: `a.b` is required; or `a.c` is required",
    ],
  ])("the problem is plain: %s", async (_name, property, value, problem) => {
    expect(await problems({ type: "object", properties: { a: property } }, { a: value })).toEqual([problem]);
  });

  it("problems are limited in number and length", async () => {
    const names = Array.from({ length: 50 }, (_unused, index) => `${"n".repeat(400)}${index}`);
    const lines = await problems(
      { additionalProperties: false, properties: { ok: {} } },
      Object.fromEntries(names.map((name) => [name, 1])),
    );
    expect(lines).toHaveLength(1);
    const distinct = await problems({ additionalProperties: false }, Object.fromEntries(names.map((_name, index) => [`n${index}`, 1])));
    expect(distinct).toHaveLength(21);
    expect(distinct.at(-1)).toBe("and 30 more");
    for (const line of [...lines, ...distinct]) expect(line.length).toBeLessThanOrEqual(501);
  });
});

describe("a schema", () => {
  it.each([DRAFT_07, "http://json-schema.org/draft-07/schema", "https://json-schema.org/draft-07/schema#"])(
    "a schema may be one of %s",
    async ($schema) => {
      const schema = {
        $schema,
        definitions: { id: { type: "integer" } },
        properties: { a: { items: [{ type: "string" }], additionalItems: false }, id: { $ref: "#/definitions/id" } },
        dependencies: { b: ["c"] },
      };
      expect(await problems(schema, { a: [1, 2], b: 1, id: "x" })).toEqual([
        "`c` is required if `b` is given",
        "`a` must have at most 1 item",
        "`a[0]` must be a string, not a number",
        "`id` must be an integer, not a string",
      ]);
      expect(await problems(schema, { a: ["x"], b: 1, c: 1, id: 1 })).toEqual([]);
      // Unknown to draft-07.
      expect(await problems({ $schema, dependentRequired: { b: ["c"] } }, { b: 1 })).toEqual([]);
      // In draft-07, keywords beside a reference are ignored.
      expect(
        await problems({ $schema, definitions: { a: {} }, properties: { a: { $ref: "#/definitions/a", minLength: 2 } } }, { a: "x" }),
      ).toEqual([]);
    },
  );

  it("a schema may share its `$id` with others", async () => {
    const withId = (type: string) => ({ $id: "https://example.com/tool", properties: { a: { $id: "inner", type } } });
    expect(await problems(withId("string"), { a: 1 })).toHaveLength(1);
    expect(await problems(withId("number"), { a: 1 })).toEqual([]);
    expect(await problems(withId("string"), { a: 1 })).toHaveLength(1);
  });

  it("a schema may refer to itself", async () => {
    const schema = {
      $defs: { node: { type: "object", properties: { value: { type: "integer" }, next: { $ref: "#/$defs/node" } } } },
      $ref: "#/$defs/node",
    };
    expect(await problems(schema, { value: 1, next: { value: 2, next: { value: "x" } } })).toEqual([
      "`next.next.value` must be an integer, not a string",
    ]);
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
    expect(await problems({ required: ["toString"] }, {})).toEqual(["`toString` is required"]);
    expect(
      await problems({ additionalProperties: false, properties: { a: {} } }, JSON.parse('{"__proto__": 1, "constructor": 2}')),
    ).toHaveLength(2);
  });

  it.each<[reason: string, schema: unknown]>([
    ["it is not an object", true],
    ["it is not an object", null],
    ["it is not a JSON Schema", { type: "strin" }],
    ["it is not a JSON Schema", { properties: [] }],
    ["it is not a JSON Schema", { minLength: "1" }],
    ["can't resolve reference", { $ref: "https://example.com/other.json" }],
    ["can't resolve reference", { properties: { a: { $ref: "#/$defs/none" } } }],
    ["its dialect", { $schema: "http://json-schema.org/draft-04/schema#" }],
    ["its dialect", { $schema: "https://json-schema.org/draft/2019-09/schema" }],
    ["its dialect", { $schema: 1 }],
    ["its dialect", { $schema: "toString" }],
    ["asynchronous", { $async: true }],
    ["longer than", { description: "x".repeat(300_000) }],
    ["more than 100 levels", JSON.parse(`${'{"not":'.repeat(200)}{}${"}".repeat(200)}`)],
    ["more than 100 levels", JSON.parse(`${'{"not":'.repeat(20_000)}{}${"}".repeat(20_000)}`)],
    ["subschemas", { allOf: Array.from({ length: 4000 }, () => ({})) }],
    [
      "subschemas",
      { unevaluatedProperties: false, allOf: Array.from({ length: 600 }, (_unused, index) => ({ properties: { [`p${index}`]: {} } })) },
    ],
    ["pattern", { not: { pattern: "(?i)a" } }],
    ["pattern", { patternProperties: { "(?i)a": {} }, additionalProperties: false }],
    ["it fails: Maximum call stack", { $ref: "#" }],
  ])("an unusable schema is skipped and logged once: %s", async (reason, inputSchema) => {
    const check = new ArgumentCheckBench();
    const name = `n${"x".repeat(200)}`;
    for (let call = 0; call < 3; call++) {
      expect(await check.problemsOf([{ name, inputSchema }], '{"a":1}')).toEqual([]);
      expect(await check.problemsOf([{ name, inputSchema: structuredCloneIfShallow(inputSchema) }], '{"a":1}')).toEqual([]);
    }
    expect(check.log.lines).toEqual([
      {
        level: "warn",
        message: "argument schema skipped",
        fields: { tool: `${name.slice(0, 100)}…`, reason: expect.stringContaining(reason) as string },
      },
    ]);
    expect(check.givenUp).toBe(0);
  });

  it("only the patterns that JavaScript does not know are skipped", async () => {
    const check = new ArgumentCheckBench();
    const inputSchema = { properties: { a: { type: "string", pattern: "(?i)x", minLength: 2 } } };
    expect(await check.problems(inputSchema, { a: "ab" })).toEqual([]);
    expect(await check.problems(inputSchema, { a: "x" })).toEqual(["`a` must have at least 2 characters"]);
    expect(check.log.lines).toEqual([
      {
        level: "warn",
        message: "argument patterns skipped",
        fields: { tool: "tool", count: 1, reason: expect.stringContaining("(?i)x") as string },
      },
    ]);
  });

  it("a schema is evicted by a thousand others and compiled again", async () => {
    const check = new ArgumentCheckBench();
    // The first use of a schema is logged.
    const first = { properties: { a: { const: 0 }, b: { pattern: "(?i)x" } } };
    const others = Array.from({ length: 1000 }, (_unused, index) => ({ properties: { a: { const: index + 1 } } }));
    for (const schema of [first, ...others.slice(1), first]) expect(await check.problems(schema, {})).toEqual([]);
    expect(check.log.lines).toHaveLength(1);
    for (const schema of [...others, first]) expect(await check.problems(schema, {})).toEqual([]);
    expect(check.log.lines).toHaveLength(2);
    expect(await check.problems(first, { a: 1 })).toEqual(["`a` must be 0"]);
  });
});

/** Cloning is recursive as well. */
function structuredCloneIfShallow(value: unknown): unknown {
  try {
    return structuredClone(value);
  } catch {
    return value;
  }
}
