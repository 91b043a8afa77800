import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { limitBody } from "../../../src/policy/result-limit/limit.ts";
import { nodeOf, poisonEngine, referenceValue } from "../../support/json-reference.ts";
import { inAnyOrder, keyText, memberText, objectText, otherMembers, stringText, together, whitespace } from "../../support/json-text.ts";

/** A string of up to about ten thousand bytes in all spellings, with composed emoji and escaped halves of surrogate pairs. */
const longText = fc
  .tuple(
    fc.oneof(stringText, fc.constantFrom('"👩‍👩‍👧‍👦"', String.raw`"\ud83d\ude00"`, String.raw`"\\\"\\"`, String.raw`"\ud83d"`)),
    stringText,
    fc.oneof(fc.nat({ max: 5 }), fc.nat({ max: 2000 })),
    stringText,
  )
  .map(([a, b, count, c]) => `"${(a.slice(1, -1) + b.slice(1, -1)).repeat(count)}${c.slice(1, -1)}"`);

const base64Text = fc
  .tuple(fc.oneof(fc.nat({ max: 60 }), fc.nat({ max: 20_000 })), fc.boolean())
  .map(([length, isEscaped]) =>
    JSON.stringify(Buffer.alloc(length, "\u00ff", "latin1").toString("base64")).replaceAll("/", isEscaped ? String.raw`\/` : "/"),
  );

function named(name: string, value: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return memberText(keyText(name), value);
}

/** Members in any order, with unknown ones among them. An earlier one may have the name of the last. */
function object(
  members: readonly (readonly [string, fc.Arbitrary<string>])[],
  last: readonly [string, fc.Arbitrary<string>],
): fc.Arbitrary<string> {
  const names = [...members.map(([name]) => name), last[0], "annotations", "_meta", "icons", "title", "size", "description"];
  const decoys = fc.array(named(last[0], last[1]), { maxLength: 1 });
  return objectText(
    inAnyOrder(together(...members.map(([name, value]) => named(name, value)), otherMembers(...names)), named(...last), decoys),
  );
}

const type = (name: string): readonly [string, fc.Arbitrary<string>] => ["type", fc.constant(JSON.stringify(name))];
const uri = fc.constantFrom('"file:///a"', '"data:,\\u0041"');
const mimeType = fc.constantFrom('"image/png"', '"a\\/b"', '"x"');

const item = fc.oneof(
  { weight: 4, arbitrary: object([type("text")], ["text", longText]) },
  object([type("image"), ["mimeType", mimeType]], ["data", base64Text]),
  object([type("resource")], ["resource", object([["uri", uri]], ["blob", base64Text])]),
  object([type("resource_link"), ["uri", uri]], ["name", longText]),
);

const array = (items: fc.Arbitrary<string[]>): fc.Arbitrary<string> =>
  fc.tuple(items, whitespace).map(([list, space]) => `[${space}${list.join(`,${space}`)}]`);

const content = array(
  fc.oneof(
    { weight: 5, arbitrary: fc.array(item, { maxLength: 6 }) },
    fc.tuple(item, fc.nat({ max: 300 })).map(([each, count]) => Array.from({ length: count }, () => each)),
  ),
);

const optional = (arbitrary: fc.Arbitrary<string>): fc.Arbitrary<string[]> => fc.array(arbitrary, { maxLength: 1 });

const resultMembers = together(
  optional(named("isError", fc.constantFrom("true", "false"))),
  optional(named("structuredContent", objectText(together(otherMembers(), optional(named("rows", longText)))))),
  optional(named("_meta", objectText(together(otherMembers("progressToken", "truncated"), optional(named("long", longText)))))),
  otherMembers("isError", "structuredContent", "_meta", "content"),
  optional(named("x-long", longText)),
);
const result = objectText(inAnyOrder(resultMembers, named("content", content)));
const anyId = fc.oneof(
  fc.constant("2"),
  fc.constant('"a\\u0062"'),
  fc.nat({ max: 400 }).map((length) => `"${"i".repeat(length)}"`),
);

/** A response with the text of its id. */
const response = fc
  .tuple(anyId, result, whitespace)
  .chain(([idText, resultText, space]) =>
    objectText(inAnyOrder(fc.constant(['"jsonrpc":"2.0"', `"id":${space}${idText}`]), fc.constant(`"result":${resultText}`))).map(
      (text) => ({ text, idText }),
    ),
  );
const maxBytes = fc.oneof(fc.constant(1024), fc.integer({ min: 1024, max: 4096 }), fc.integer({ min: 1024, max: 40_000 }));

interface Result {
  readonly isError?: unknown;
  readonly _meta?: Readonly<Record<string, unknown>>;
}
const parse = (text: string): Result => (referenceValue(text) as { readonly result: Result }).result;

describe("any tool result above MAX_RESULT_BYTES", () => {
  it("a limited body is a valid tool result within the limit, with the same id and the true sizes", () => {
    fc.assert(
      fc.property(response, maxBytes, ({ text, idText }, max) => {
        poisonEngine(nodeOf(text));
        const limited = limitBody(text, max);
        expect(limited === undefined).toBe(Buffer.byteLength(text) <= max);
        if (limited === undefined) return;
        const [originalBytes, keptBytes] = [Buffer.byteLength(text), Buffer.byteLength(limited)];
        expect(keptBytes).toBeLessThanOrEqual(max);
        expect(limited).toContain(`"id":${idText},`);
        const after = parse(limited);
        expect(CallToolResultSchema.safeParse(after).success).toBe(true);
        expect(after.isError).toBe(parse(text).isError);
        expect(after["_meta"]).toMatchObject({ truncated: true, originalBytes, keptBytes });
        expect(limitBody(limited, max)).toBeUndefined();
      }),
      { numRuns: 100 },
    );
  });
});
