import { describe, expect, it } from "vitest";
import { responseForSession } from "../../../src/era/modern-server/session-result.ts";

function resultOf(method: string, resultText: string): unknown {
  const response = responseForSession(`{"jsonrpc":"2.0","id":1,"result":${resultText}}`, "1", method);
  return typeof response === "string" ? (JSON.parse(response) as { result: unknown }).result : response.code;
}

describe("a result of a server without sessions, for a session", () => {
  it.each([
    ['{"resultType":"complete","ttlMs":1,"cacheScope":"public","a":{"ttlMs":2}}', { a: { ttlMs: 2 } }],
    [String.raw`{"a":1,"result\u0054ype":"comple\u0074e"}`, { a: 1 }],
    ['{"_meta":{"io.modelcontextprotocol/serverInfo":{}},"a":1}', { a: 1 }],
    ['{"a":1,"_meta":{"io.modelcontextprotocol/serverInfo":{},"x":1}}', { a: 1, _meta: { x: 1 } }],
    ['{"a":1,"_meta":{}}', { a: 1, _meta: {} }],
    ['{"resultType":"task"}', "UNKNOWN_RESULT_TYPE"],
    [String.raw`{"resultType":"t\u0061sk"}`, "UNKNOWN_RESULT_TYPE"],
    ['{"resultType":"input_required","requestState":"s"}', "UNKNOWN_RESULT_TYPE"],
    ['{"resultType":"odd"}', "UNKNOWN_RESULT_TYPE"],
    ['{"resultType":1}', "UNKNOWN_RESULT_TYPE"],
  ])("%s loses what sessions do not have", (text, expected) => {
    expect(resultOf("prompts/list", text)).toEqual(expected);
  });

  it.each([
    ['{"structuredContent":{"a":1}}', { structuredContent: { a: 1 } }],
    ['{"structuredContent":[1, 2]}', { structuredContent: { result: [1, 2] } }],
    ['{"structuredContent":"t"}', { structuredContent: { result: "t" } }],
  ])("the structured content of %s is an object", (text, expected) => {
    expect(resultOf("tools/call", text)).toEqual(expected);
  });

  it("the output schemas of a hundred thousand tools are removed if they do not describe objects", () => {
    const count = 100_000;
    const tools = Array.from({ length: count }, (_, index) => `{"name":"t${index}","outputSchema":{"type":"array"}}`);
    tools.push('{"name":"last","outputSchema":{"type":"object"}}');
    const result = resultOf("tools/list", `{"tools":[${tools.join(",")}]}`) as { readonly tools: readonly object[] };
    expect(result.tools[count - 1]).toEqual({ name: `t${count - 1}` });
    expect(result.tools[count]).toEqual({ name: "last", outputSchema: { type: "object" } });
  });
});
