import { expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { send } from "../support/http-client.ts";
import type { JsonRpcMessage } from "../support/json-rpc.ts";
import { type ListedTool, ListedTools, WITNESSES } from "../support/listed-tools.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";

const NAMES = Array.from({ length: 20_000 }, (_unused, index) => `property_${index}`);
const TOOLS: readonly ListedTool[] = [
  ...WITNESSES,
  // A pattern whose matching time doubles with each letter.
  { name: "match", inputSchema: { properties: { text: { pattern: "^(a+)+$" } } } },
  { name: "repeat", inputSchema: { properties: { n: { type: "integer" } } } },
  { name: "wide", inputSchema: { properties: Object.fromEntries(NAMES.map((name) => [name, {}])) } },
  { name: "delete", inputSchema: { properties: { force: { const: false } } } },
];
const SLOW = { text: `${"a".repeat(5000)}!` };
const TOO_LONG = "- the arguments take too long to be checked\n";

function textOf({ result }: JsonRpcMessage): string {
  return result?.content?.[0]?.text ?? "";
}

async function countReceived(client: McpClient, name: string): Promise<number> {
  const lines = JSON.parse(await client.toolText("lines")) as string[];
  return lines.filter((line) => (JSON.parse(line) as { params?: { name?: unknown } }).params?.name === name).length;
}

/** Sends `count` slow calls; returns once the sidecar has accepted half of them. */
async function beginSlowCalls(sidecar: RunningSidecar, client: McpClient, count: number) {
  const calls = Array.from({ length: count }, (_unused, index) => client.callTool("match", SLOW, index));
  while ((await readStatus(sidecar)).lanes.shared.requestsInFlight < count / 2) await new Promise(setImmediate);
  return calls;
}

const listed = disposeAfterAll(await ListedTools.create(TOOLS));
const sidecar = disposeAfterAll(await HttpBench.start({ flags: ["--argument-check", "enforce"], env: listed.env }));
const other = await sidecar.client();

it("each slow call is answered once and never sent if its session ends", async () => {
  const client = await sidecar.client();
  const calls = await beginSlowCalls(sidecar, client, 10);
  await send(sidecar.url, { method: "DELETE", headers: { "Mcp-Session-Id": client.sessionId } });
  const replies = await Promise.all(calls);
  const outcomes = replies.map((reply) => reply.error?.data?.["code"] ?? (textOf(reply).includes(TOO_LONG) ? "TOO_LONG" : "other"));
  expect(new Set(outcomes).difference(new Set(["TOO_LONG", "REQUEST_CANCELLED", "SESSION_NOT_FOUND"]))).toEqual(new Set());
  expect(outcomes).toContain("REQUEST_CANCELLED");
  expect(await countReceived(other, "match")).toBe(0);
});

it("each of 20,000 names is compared with all properties of the schema", async () => {
  const args = Object.fromEntries(NAMES.map((name) => [name === "property_19999" ? "PROPERTY_19999" : `${name}_`, 1]));
  expect(textOf(await other.callTool("wide", args))).toContain('- "PROPERTY_19999" must be spelled "property_19999"\n');
  expect(await countReceived(other, "wide")).toBe(0);
});

it("an escaped name is checked in its decoded form, even after crafted calls", async () => {
  const call = (argsText: string): string =>
    `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"delete","arguments":${argsText}}}`;
  // The engine mistakes names that begin like these for names that it has seen in an object of the same shape (nodejs/node#63785).
  for (const poison of [String.raw`{"x":1,"f\\u00":1}`, String.raw`{"x":1,"i\\":1}`]) await other.post(call(poison));
  const reply = await other.post(call(String.raw`{"x":1,"f\u006frce":true}`));
  expect(textOf(JSON.parse(reply.body) as JsonRpcMessage)).toContain('- "force" must be equal to constant: false\n');
  // Only the two harmless calls arrived.
  expect(await countReceived(other, "delete")).toBe(2);
});

it("slow calls are answered before the sidecar exits", async () => {
  await using stopping = await HttpBench.start({ flags: ["--argument-check", "enforce"], env: listed.env });
  const calls = await beginSlowCalls(stopping, await stopping.client(), 4);
  stopping.kill("SIGTERM");
  for (const reply of await Promise.all(calls)) {
    expect(reply.error?.data?.["code"] ?? textOf(reply)).toMatch(/^SHUTTING_DOWN$|- the arguments take too long to be checked\n/);
  }
  expect(await stopping.ended).toBe(0);
});

it("slow arguments are forwarded and logged in warn mode", async () => {
  await using warning = await HttpBench.start({ flags: ["--argument-check", "warn"], env: listed.env });
  expect(JSON.parse(await (await warning.client()).toolText("match", SLOW))).toEqual(SLOW);
  const reason = "the arguments take too long to be checked";
  expect(await warning.waitForLog("arguments violate the schema")).toMatchObject({ tool: "match", reason });
});
