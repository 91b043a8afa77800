import { describe, expect, it } from "vitest";
import { findAmbiguities } from "../../../src/policy/ambiguous-arguments.ts";

const READ = { name: "read", inputSchema: { type: "object", properties: { path: { type: "string" }, Mode: {} } } };

function ambiguitiesOf(text: string, tools = [READ]): readonly string[] {
  return findAmbiguities(tools, JSON.parse(text), text, 0);
}

describe("arguments that a server might read otherwise", () => {
  it.each([
    ['{"path":"a","path":"b"}', '"path" occurs twice in one object'],
    ['{"path":"a","x":[{"y":1,"y":2}]}', '"y" occurs twice in one object'],
    ['{"Path":"b"}', '"Path" is spelled "path"'],
    ['{"path":"a","PATH":"b"}', '"PATH" is spelled "path"'],
    ['{"mode":1}', '"mode" is spelled "Mode"'],
  ])("are named: %s", (text, line) => {
    expect(ambiguitiesOf(text)).toEqual([line]);
  });

  it.each(['{"path":"a","Mode":1}', '{"env":{"Path":1,"PATH":2,"path":3}}', '{"paths":1}', "{}", "[]", '"path"', "null"])(
    "are not %s",
    (text) => {
      expect(ambiguitiesOf(text)).toEqual([]);
    },
  );

  it("are none of a tool that nobody knows, and only repeated ones of a tool without properties", () => {
    expect(ambiguitiesOf('{"a":1,"a":2}', [])).toEqual([]);
    const text = '{"Path":1}';
    expect(findAmbiguities([{ name: "x" }, { name: "x", inputSchema: true }], { Path: 1 }, text, 0)).toEqual([]);
  });

  it("name names that a client chose only up to a length", () => {
    const name = "x".repeat(10_000);
    expect(ambiguitiesOf(`{"${name}":1,"${name}":2}`)[0]?.length).toBeLessThan(200);
  });
});
