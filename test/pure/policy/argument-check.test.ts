import { describe, expect, it } from "vitest";
import { ArgumentCheckBench } from "../../support/argument-check-bench.ts";

const DRAFT_07 = "http://json-schema.org/draft-07/schema#";
const DRAFT_2020_12 = "https://json-schema.org/draft/2020-12/schema";

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

  it("valid arguments have no problems", async () => {
    expect(await problems(schema, { path: "a", limit: 3, mode: "fast" })).toEqual([]);
    expect(await problems(schema, { path: "a" })).toEqual([]);
  });

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

  it("arguments are not coerced", async () => {
    expect(await problems({ type: "object", properties: { n: { type: "number" } } }, { n: "1" })).toHaveLength(1);
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
    ["const", { const: "x" }, 5, '`a` must be "x"'],
    ["minimum", { minimum: 1 }, 0, "`a` must be >= 1"],
    ["exclusiveMaximum", { exclusiveMaximum: 1 }, 1, "`a` must be < 1"],
    ["multipleOf", { multipleOf: 0.01 }, 0.005, "`a` must be a multiple of 0.01"],
    ["minLength", { minLength: 1 }, "", "`a` must have at least 1 character"],
    ["maxLength", { maxLength: 2 }, "abc", "`a` must have at most 2 characters"],
    ["pattern", { pattern: "^\\d+$" }, "abc", '`a` must match the pattern "^\\\\d+$"'],
    ["minItems", { minItems: 2 }, [1], "`a` must have at least 2 items"],
    ["maxItems", { maxItems: 1 }, [1, 2], "`a` must have at most 1 item"],
    ["uniqueItems", { uniqueItems: true }, [{ x: 1, y: 2 }, 3, { y: 2, x: 1 }], "`a` must not have the same item twice"],
    [
      "items",
      { items: { type: "object", properties: { id: { type: "integer" } } } },
      [{ id: 1 }, { id: "x" }],
      "`a[1].id` must be an integer, not a string",
    ],
    [
      "odd names",
      { properties: { "odd name/~": { type: "string" } } },
      { "odd name/~": 1 },
      '`a["odd name/~"]` must be a string, not a number',
    ],
    ["numbers as names", { properties: { "3": { type: "string" } } }, { "3": 1 }, '`a["3"]` must be a string, not a number'],
    ["required, nested", { required: ["b"] }, {}, "`a.b` is required"],
    ["additionalProperties, none known", { additionalProperties: false }, { b: 1 }, "`a.b` is unknown"],
    ["unevaluatedProperties", { unevaluatedProperties: false, allOf: [{ properties: { b: {} } }] }, { b: 1, c: 1 }, "`a.c` is unknown"],
    ["dependentRequired", { dependentRequired: { b: ["c"] } }, { b: 1 }, "`a.c` is required if `b` is given"],
    ["propertyNames", { propertyNames: { pattern: "^[a-z]+$" } }, { B: 1 }, "`a.B` is not an allowed name here"],
    ["minProperties", { minProperties: 1 }, {}, "`a` must have at least 1 member"],
    ["prefixItems", { prefixItems: [{ type: "string" }], items: false, minItems: 1 }, ["x", 1], "`a` must have at most 1 item"],
    ["unevaluatedItems", { prefixItems: [{}], unevaluatedItems: false }, [1, 2], "`a` has more items than its schema allows"],
    ["not", { not: { type: "string" } }, "x", "`a` matches a form that its schema excludes (`not`)"],
    ["false", { not: {} }, 1, "`a` matches a form that its schema excludes (`not`)"],
    // oxlint-disable-next-line unicorn/no-thenable -- a keyword
    ["if, then", { if: { required: ["b"] }, then: { required: ["c"] } }, { b: 1 }, "`a.c` is required"],
    ["anyOf of types", { anyOf: [{ type: "string" }, { type: "null" }] }, 5, "`a` must be a string or null"],
    ["anyOf of values", { anyOf: [{ const: "x" }, { const: "y" }, { type: "null" }] }, 5, '`a` must be one of: null, "x", "y"'],
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
      "oneOf, no such kind",
      {
        oneOf: [
          { properties: { kind: { const: "x" } }, required: ["x"] },
          { properties: { kind: { const: "y" } }, required: ["y"] },
        ],
      },
      { kind: "z" },
      '`a.kind` must be "x" or "y"',
    ],
    [
      "oneOf, without the member that tells",
      {
        oneOf: [
          { properties: { kind: { const: "x" } }, required: ["kind"] },
          { properties: { kind: { const: "y" } }, required: ["kind"] },
        ],
      },
      {},
      "`a.kind` is required",
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
    [
      "anyOf with references",
      {
        $defs: { X: { type: "object", properties: { n: { type: "integer" } } } },
        anyOf: [{ $ref: "#/properties/a/$defs/X" }, { type: "null" }],
      },
      { n: "1" },
      "`a.n` must be an integer, not a string",
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

  it("a problem stays on one line, whatever the names are", async () => {
    for (const name of ["a\nb", "\u2028", "`", "", "__proto__", "\ud800"]) {
      const args = JSON.parse(`{${JSON.stringify(name)}:1}`) as object;
      const [line, ...others] = await problems({ additionalProperties: false }, args);
      expect(others).toEqual([]);
      expect(line).not.toMatch(/[\n\r]/);
      expect(line).toContain("is unknown");
    }
  });
});

describe("a schema", () => {
  it("a schema without a dialect is one of 2020-12", async () => {
    const schema = { properties: { a: { prefixItems: [{ type: "string" }] } }, dependentRequired: { b: ["c"] } };
    expect(await problems(schema, { a: [1], b: 1 })).toHaveLength(2);
    expect(await problems({ ...schema, $schema: DRAFT_2020_12 }, { a: [1], b: 1 })).toHaveLength(2);
  });

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

  it("formats and unknown keywords are ignored", async () => {
    expect(
      await problems(
        { properties: { a: { type: "string", format: "email", "x-hint": 1, format2: [] } }, markdownDescription: "x" },
        { a: "no" },
      ),
    ).toEqual([]);
  });

  it("the rounding of decimal numbers is tolerated", async () => {
    expect(await problems({ properties: { a: { multipleOf: 0.01 } } }, { a: 19.99 })).toEqual([]);
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

  it("patterns may look around and refer back", async () => {
    const schema = { properties: { a: { pattern: "^(?!x)(.)\\1" } } };
    expect(await problems(schema, { a: "bb" })).toEqual([]);
    for (const a of ["xx", "ab"]) expect(await problems(schema, { a })).toHaveLength(1);
  });

  it("an unusable schema is logged once, also after restarts", async () => {
    const check = new ArgumentCheckBench();
    for (let time = 0; time < 3; time++) await check.problems({ type: "strin" }, {});
    expect(check.log.messages).toEqual(["argument schema skipped"]);
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
