import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../../src/protocol/message.ts";
import { findAmbiguity, PropertyNames } from "../../../src/policy/ambiguous-arguments.ts";

const READ = { type: "object", properties: { path: { type: "string" }, Mode: {}, kilo: {}, é: {} } };

function ambiguityOf(text: string, schemas: readonly unknown[] = [READ]): string | undefined {
  return findAmbiguity(
    schemas.map((schema) => new PropertyNames(schema)),
    JSON.parse(text) as JsonObject,
    text,
  );
}

describe("ambiguous arguments", () => {
  it.each([
    ['{"path":"a","path":"b"}', '"path" occurs twice in one object'],
    ['{"path":"a","x":[{"y":1,"y":2}]}', '"y" occurs twice in one object'],
    ['{"Path":"b"}', '"Path" must be spelled "path"'],
    ['{"path":"a","PATH":"b"}', '"PATH" must be spelled "path"'],
    ['{"mode":1}', '"mode" must be spelled "Mode"'],
    ['{"\\u212aİlo":1}', '"\u212aİlo" must be spelled "kilo"'],
  ])("the ambiguity is named: %s", (text, line) => {
    expect(ambiguityOf(text)).toBe(line);
  });

  it.each(['{"path":"a","Mode":1}', '{"env":{"Path":1,"PATH":2,"path":3}}', '{"paths":1}', "{}", '{"É":1}'])(
    "the arguments %s are not ambiguous",
    (text) => {
      expect(ambiguityOf(text)).toBeUndefined();
    },
  );

  it("a tool without properties has repeated names only", () => {
    expect(ambiguityOf('{"a":1,"a":2}', [])).toBe('"a" occurs twice in one object');
    expect(ambiguityOf('{"Path":1}', [undefined, true, { properties: [] }])).toBeUndefined();
  });

  it("the properties of all tools of a name are checked", () => {
    expect(ambiguityOf('{"Path":1}', [undefined, READ])).toBe('"Path" must be spelled "path"');
  });

  it("a long name is shortened in the problem", () => {
    const name = "x".repeat(10_000);
    expect(ambiguityOf(`{"${name}":1,"${name}":2}`)?.length).toBeLessThan(200);
  });
});
