import { describe, expect, it } from "vitest";
import { listTools } from "../../../src/cli/discover/listing.ts";
import { formatDescriptor } from "../../../src/descriptor/descriptor.ts";
import type { ResponseMessage } from "../../../src/protocol/message.ts";
import { answerOfServer } from "../../unit/support/lane-bench.ts";
import { descriptorOf, stored } from "../../support/reviewed-tools.ts";

const CAPABLE = JSON.stringify({ capabilities: { tools: {} } });

function page(tools: readonly object[]): ResponseMessage {
  return answerOfServer(JSON.stringify({ jsonrpc: "2.0", id: 1, result: { tools } }));
}

describe("the listing of discover", () => {
  it.each([
    ["no capabilities", "{}"],
    ["capabilities of another type", '{"capabilities":[]}'],
    ["the capability null", '{"capabilities":{"tools":null}}'],
    ["the capability false", '{"capabilities":{"tools":false}}'],
  ])("a server with %s is not asked for tools", async (_what, initializeText) => {
    const request = (): Promise<ResponseMessage> => Promise.reject(new Error("asked"));
    expect(await listTools("2025-11-25", initializeText, request)).toEqual({
      protocolVersion: "2025-11-25",
      hasToolsCapability: false,
      tools: [],
    });
  });

  it("a list of 4 MiB of terse schemas is read, and fits into a descriptor", async () => {
    const properties = { a: { type: "string" }, b: { type: "number", minimum: 1 }, c: { type: "array", items: { type: "string" } } };
    const inputSchema = { type: "object", properties: { ...properties, d: { type: "object", properties } }, required: ["a", "b"] };
    const tools = Array.from({ length: 9999 }, (_, index) => ({ name: `t${index}`, description: "d".repeat(80), inputSchema }));
    const response = page(tools);
    expect(response.text.length).toBeGreaterThan(4 * 1024 * 1024);
    const listing = await listTools("2025-11-25", CAPABLE, () => Promise.resolve(response));
    expect(listing.tools).toHaveLength(9999);
    expect(formatDescriptor(descriptorOf(listing.tools.map(stored)))).toContain('"name": "t9998"');
  });

  it("a long repeated name is shortened in the error", async () => {
    const response = page([{ name: "n".repeat(1_000_000) }, { name: "n".repeat(1_000_000) }]);
    const listed = listTools("2025-11-25", CAPABLE, () => Promise.resolve(response));
    await expect(listed).rejects.toThrow(`tools/list: "${"n".repeat(100)}…" occurs more than once`);
  });
});
