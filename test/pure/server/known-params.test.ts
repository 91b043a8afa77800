import { expect, it } from "vitest";
import { KnownParams } from "../../../src/server/known-params.ts";
import { type JsonObject, readMessage, type RequestMessage } from "../../../src/mcp/message.ts";
import type { ToolList } from "../../../src/server/tools.ts";
import { contextOf } from "../../support/context.ts";

type Tools = readonly JsonObject[] | undefined;

const CALL = readMessage(
  '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"region":"eu"}}}',
) as RequestMessage;
const TOOLS: Tools = [{ name: "t", inputSchema: { properties: { region: { type: "string", "x-mcp-header": "Region" } } } }];
const RIGHT = { "mcp-param-region": "eu" };
const WRONG = { "mcp-param-region": "us" };

/** Returns the parameters of a server whose listings end when the test says so, and a clock. */
function setUp() {
  const listings: ((tools: Tools) => void)[] = [];
  const clock = { nowMs: 0 };
  const list = (): Promise<ToolList> => new Promise((resolve) => listings.push((tools) => resolve({ tools, problem: undefined })));
  const params = new KnownParams(contextOf({}, { nowMs: () => clock.nowMs }), { version: 0, list });
  return { listings, clock, params };
}

async function listed(tools: Tools) {
  const parts = setUp();
  const checked = parts.params.check(CALL, RIGHT);
  parts.listings.shift()?.(tools);
  await checked;
  return parts;
}

it("wrong calls ask for a listing once in a second, and in ten times as long as it takes", async () => {
  const { listings, clock, params } = await listed(TOOLS);
  clock.nowMs = 999;
  expect([params.check(CALL, WRONG), listings]).toEqual([expect.objectContaining({ code: "HEADER_MISMATCH" }), []]);
  clock.nowMs = 1000;
  const wrong = params.check(CALL, WRONG);
  clock.nowMs = 3000;
  listings.shift()?.(TOOLS);
  await wrong;
  clock.nowMs = 22_999;
  expect(params.check(CALL, WRONG)).toMatchObject({ code: "HEADER_MISMATCH" });
  clock.nowMs = 23_000;
  expect(params.check(CALL, WRONG)).toBeInstanceOf(Promise);
});
