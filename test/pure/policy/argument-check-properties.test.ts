import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { invalidArgumentsResult } from "../../../src/policy/arguments/invalid-arguments.ts";
import { ArgumentCheckBench } from "../../support/argument-check-bench.ts";

const check = new ArgumentCheckBench();

/** A schema, with values that it accepts and values that it does not. */
interface Field {
  readonly schema: object;
  readonly valid: unknown;
  readonly invalid: unknown;
}

function field(schema: object, valid: fc.Arbitrary<unknown>, invalid: fc.Arbitrary<unknown>): fc.Arbitrary<Field> {
  return fc.record({ schema: fc.constant(schema), valid, invalid });
}

const fields = fc.letrec<{ field: Field; list: Field; record: Field }>((tie) => ({
  field: fc.oneof(
    { maxDepth: 3 },
    field({ type: "string" }, fc.string({ unit: "binary" }), fc.oneof(fc.integer(), fc.constant(null), fc.constant([]))),
    field(
      { type: "integer", minimum: -5, maximum: 5 },
      fc.integer({ min: -5, max: 5 }),
      fc.oneof(fc.integer({ min: 6 }), fc.constant("1"), fc.constant(0.5)),
    ),
    field({ type: "boolean" }, fc.boolean(), fc.constantFrom(0, "true", null)),
    field({ enum: ["red", "green", 3, null] }, fc.constantFrom("red", "green", 3, null), fc.constantFrom("blue", 4, {}, [])),
    field(
      { type: "string", minLength: 1, maxLength: 3 },
      fc.string({ unit: "grapheme-ascii", minLength: 1, maxLength: 3 }),
      fc.constantFrom("", "four", 1),
    ),
    field(
      { type: "string", pattern: "^(?:[a-c]+-)*[a-c]+$" },
      fc.stringMatching(/^(?:[a-c]{1,3}-){0,3}[a-c]{1,3}$/),
      fc.constantFrom("", "-", "a-", "d", 1),
    ),
    field({ anyOf: [{ type: "string" }, { type: "null" }] }, fc.oneof(fc.string(), fc.constant(null)), fc.constantFrom(1, {}, [], true)),
    tie("list"),
    tie("record"),
  ),
  list: fc.tuple(tie("field"), fc.nat(3)).map(([item, before]) => ({
    schema: { type: "array", items: item.schema, maxItems: 4 },
    valid: Array.from({ length: before }, () => item.valid),
    invalid: [...Array.from({ length: before }, () => item.valid), item.invalid],
  })),
  record: fc.tuple(tie("field"), fc.boolean()).map(([member, isOpen]) => ({
    schema: { type: "object", properties: { member: member.schema }, required: ["member"], additionalProperties: isOpen },
    valid: { member: member.valid },
    invalid: { member: member.invalid },
  })),
})).field;

const names = fc.string({ unit: fc.constantFrom("a", "b", "_", "-", " ", "/", "~", "é", "1"), maxLength: 5 });
const dialects = fc.constantFrom(
  {},
  { $schema: "http://json-schema.org/draft-07/schema#" },
  { $schema: "https://json-schema.org/draft/2020-12/schema" },
);

describe("any schema that is made of known parts", () => {
  it("valid arguments have no problem, and each invalid field is named", async () => {
    await fc.assert(
      fc.asyncProperty(fc.dictionary(names, fc.tuple(fields, fc.boolean()), { maxKeys: 6 }), dialects, async (members, dialect) => {
        const entries = Object.entries(members);
        const properties = Object.fromEntries(entries.map(([name, [{ schema }]]) => [name, schema]));
        const inputSchema = { ...dialect, type: "object", properties, required: Object.keys(properties), additionalProperties: false };
        expect(await check.problems(inputSchema, Object.fromEntries(entries.map(([name, [{ valid }]]) => [name, valid])))).toEqual([]);

        const wrong = entries.filter(([, [, isWrong]]) => isWrong).map(([name]) => name);
        const args = Object.fromEntries(entries.map(([name, [{ valid, invalid }, isWrong]]) => [name, isWrong ? invalid : valid]));
        const problems = await check.problems(inputSchema, args);
        for (const [name, [, isWrong]] of entries)
          expect([name, problems.some((problem) => isAbout(problem, name))]).toEqual([name, isWrong]);
        expect(problems).toHaveLength(wrong.length);

        const without = Object.fromEntries(Object.entries(args).filter(([name]) => !wrong.includes(name)));
        const missing = await check.problems(inputSchema, { ...without, "no such name": 1 });
        expect(missing.filter((problem) => problem.includes("is required"))).toHaveLength(wrong.length);
        expect(missing.filter((problem) => problem.startsWith('`["no such name"]` is unknown'))).toHaveLength(1);
      }),
      { numRuns: 300 },
    );
    expect(check.log.lines).toEqual([]);
  });
});

function isAbout(problem: string, name: string): boolean {
  const path = /^`([^`]*)`/.exec(problem)?.[1] ?? "";
  const starts = [`[${JSON.stringify(name)}]`, ...(name === "" ? [] : [name])];
  return starts.some((start) => path === start || path.startsWith(`${start}.`) || path.startsWith(`${start}[`));
}

/** A schema-like object: keywords with values of any kind, right and wrong. */
const schemaLike = fc.letrec<{ schema: unknown; value: unknown }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 4 },
    fc.boolean(),
    fc.dictionary(
      fc.constantFrom(
        ..."$schema $id $ref $defs $anchor $dynamicRef $dynamicAnchor $async $comment $vocabulary definitions type enum const".split(" "),
        ..."properties required additionalProperties patternProperties propertyNames items prefixItems additionalItems contains".split(" "),
        ..."minContains maxContains uniqueItems unevaluatedProperties unevaluatedItems dependencies dependentRequired not if then else".split(
          " ",
        ),
        ..."allOf anyOf oneOf minimum multipleOf minLength pattern format nullable discriminator id $recursiveRef $data __proto__".split(
          " ",
        ),
      ),
      tie("value"),
      { maxKeys: 4 },
    ),
  ),
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom<unknown>(
      "object",
      "string",
      "#",
      "#/$defs/a",
      "a",
      "^a+$",
      "(?=a)",
      "[",
      0,
      1,
      -1,
      1.5,
      true,
      null,
      "__proto__",
      "constructor",
    ),
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
        const problems = await check.problems(inputSchema, args);
        for (const problem of problems) expect(problem).toMatch(/^[^\n]{1,501}$/);
        expect(JSON.parse(invalidArgumentsResult("tool", problems))).toHaveProperty("isError", true);
      }),
      { numRuns: 3000 },
    );
    expect(({} as Record<string, unknown>)["a"]).toBeUndefined();
  });
});
