import { describe, expect, it } from "vitest";
import { checkParamHeaders, headerParams } from "../../../src/era/checks/param-headers.ts";
import { readMessage, type RequestMessage } from "../../../src/protocol/message.ts";

const SCHEMA = {
  type: "object",
  properties: {
    region: { type: "string", "x-mcp-header": "Region" },
    count: { type: "integer", "x-mcp-header": "Count" },
    urgent: { type: "boolean", "x-mcp-header": "Urgent" },
    nested: { type: "object", properties: { tier: { type: "string", "x-mcp-header": "Tier" } } },
    plain: { type: "string" },
    odd: { type: "string", "x-mcp-header": "no token" },
  },
};
const PARAMS = headerParams([{ name: "t", inputSchema: SCHEMA }]).get("t") ?? [];

function problem(args: unknown, headers: Record<string, string> = {}): string | undefined {
  const params = { name: "t", ...(args === undefined ? {} : { arguments: args }) };
  const request = readMessage(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params })) as RequestMessage;
  return checkParamHeaders(request, headers, PARAMS)?.message;
}

describe("the parameters of a tool in headers", () => {
  it("they are found at any depth, and only with names that a header can have", () => {
    expect(PARAMS.map(({ path, header }) => [path.join("."), header])).toEqual([
      ["region", "mcp-param-region"],
      ["count", "mcp-param-count"],
      ["urgent", "mcp-param-urgent"],
      ["nested.tier", "mcp-param-tier"],
    ]);
  });

  it("a name that two tools have is not checked, because it is unknown which one the server calls", () => {
    const tool = { name: "t", inputSchema: SCHEMA };
    expect(headerParams([tool, tool]).size).toBe(0);
  });

  it.each([
    [undefined, {}],
    [{}, {}],
    [{ region: null }, {}],
    [{ plain: "x" }, {}],
    [{ region: ["x"] }, {}],
    [{ region: "eu" }, { "mcp-param-region": "eu" }],
    [{ region: "ä" }, { "mcp-param-region": "=?base64?w6Q=?=" }],
    [{ count: 42 }, { "mcp-param-count": "42.0" }],
    [{ urgent: true }, { "mcp-param-urgent": "true" }],
    [{ nested: { tier: "a" } }, { "mcp-param-tier": "a" }],
    [{}, { "mcp-param-region": "eu" }],
  ])("the arguments %j agree with the headers %j", (args, headers) => {
    expect(problem(args, headers as Record<string, string>)).toBeUndefined();
  });

  it.each([
    [{ region: "eu" }, {}, "missing"],
    [{ region: "eu" }, { "mcp-param-region": "EU" }, "differs"],
    [{ region: "eu" }, { "mcp-param-region": "=?base64?ZXU?=" }, "malformed"],
    [{ count: 42 }, { "mcp-param-count": "43" }, "differs"],
    [{ count: 42 }, { "mcp-param-count": "0x2a" }, "differs"],
    [{ urgent: true }, { "mcp-param-urgent": "True" }, "differs"],
    [{ nested: { tier: "a" } }, { "mcp-param-tier": "b" }, "differs"],
  ])("the arguments %j do not agree with the headers %j", (args, headers, word) => {
    expect(problem(args, headers as Record<string, string>)).toContain(word);
  });
});
