import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { describe, expect, it } from "vitest";
import { invalidArgumentsResult } from "../../../src/policy/arguments/invalid-arguments.ts";

function textOf(json: string): string {
  const { content, isError } = CallToolResultSchema.parse(JSON.parse(json));
  expect(isError).toBe(true);
  expect(content).toHaveLength(1);
  return content[0]?.type === "text" ? content[0].text : "";
}

describe("the result for invalid arguments", () => {
  it("the result tells a model what to correct", () => {
    expect(textOf(invalidArgumentsResult("search", ["`query` is required (a string)", "`limit` must be <= 100"]))).toBe(
      [
        'INVALID_ARGS: the arguments do not match the input schema of the tool "search". The call was not sent to the server.',
        "- `query` is required (a string)",
        "- `limit` must be <= 100",
        "Correct the arguments and call the tool again.",
      ].join("\n"),
    );
  });

  it("the result has one short line for each problem, whatever the tool's name", () => {
    const text = textOf(invalidArgumentsResult(`a\n"${"😀".repeat(1000)}`, ["x"]));
    expect(text.split("\n")).toHaveLength(3);
    expect(text.length).toBeLessThan(400);
    expect(text.isWellFormed()).toBe(true);
  });
});
