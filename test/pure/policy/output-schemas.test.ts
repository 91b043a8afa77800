import { describe, expect, it } from "vitest";
import { withoutOutputSchemas } from "../../../src/policy/tools/output-schemas.ts";

describe("output schemas", () => {
  it("the schemas are removed from every tool, and every other byte stays", () => {
    const body = String.raw`{"id":1.0,"result":{"nextCursor":"c","tools":[ {"name":"a","outputSchema":{"type":"object"} , "x":1e400},{"name":"b"},{"o\u0075tputSchema":{},"name":"c"}, 7 ]}}`;
    const expected = String.raw`{"id":1.0,"result":{"nextCursor":"c","tools":[ {"name":"a","x":1e400},{"name":"b"},{"name":"c"}, 7 ]}}`;
    expect(withoutOutputSchemas(body)).toBe(expected);
  });

  it.each(['{"error":{"code":1,"message":"m"}}', '{"result":{"tools":{"outputSchema":1}}}', '{"result":7}', '{"result":{"tools":[]}}'])(
    "the answer %s is unchanged",
    (body) => {
      expect(withoutOutputSchemas(body)).toBe(body);
    },
  );

  it("tools after the ten thousandth are removed", () => {
    const tools = Array.from({ length: 10_001 }, (_, index) => `{"name":"t${index}","outputSchema":{}}`);
    const { result } = JSON.parse(withoutOutputSchemas(`{"id":1,"result":{"tools":[${tools.join(",")}]}}`)) as {
      readonly result: { readonly tools: readonly object[] };
    };
    expect([result.tools.length, result.tools.at(-1)]).toEqual([10_000, { name: "t9999" }]);
  });
});
