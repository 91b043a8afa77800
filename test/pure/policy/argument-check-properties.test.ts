import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { invalidArgumentsResult } from "../../../src/policy/arguments/invalid-arguments.ts";
import { ArgumentCheckBench } from "../../support/argument-check-bench.ts";

const check = new ArgumentCheckBench();

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
