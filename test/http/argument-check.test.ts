import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { crashProcess, readWhere } from "../support/fixture-server.ts";
import { HttpBench } from "../support/http-bench.ts";
import { send } from "../support/http-client.ts";
import type { JsonRpcMessage } from "../support/json-rpc.ts";
import { LANE_CLIENTS, type LaneClient } from "../support/lane-client.ts";
import { type ListedTool, ListedTools, WITNESSES } from "../support/listed-tools.ts";
import { type McpClient, toolCall } from "../support/mcp-client.ts";
import type { LogLine, RunningSidecar } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";

const SEARCH = withSchema("search", {
  type: "object",
  properties: { query: { type: "string", minLength: 1 }, limit: { type: "integer", maximum: 100 } },
  required: ["query"],
  additionalProperties: false,
});
const WRONG = { limit: 500, querry: "secret words" };

function withSchema(name: string, inputSchema: unknown): ListedTool {
  return { name, inputSchema };
}

function start(mode: "off" | "warn" | "enforce", listed: ListedTools): Promise<RunningSidecar> {
  const flags = ["--argument-check", mode, "--restart-backoff-ms", "1", "--restart-max-ms", "20"];
  return HttpBench.start({ flags, env: listed.env });
}

/** The text of a rejection; undefined for a response of the server. */
function refusalOf({ result }: JsonRpcMessage): string | undefined {
  const { isError, content } = CallToolResultSchema.parse(result);
  return isError === true && content[0]?.type === "text" ? content[0].text : undefined;
}

async function receivedArgs(client: McpClient, name: string): Promise<unknown[]> {
  const lines = JSON.parse(await client.toolText("lines")) as string[];
  const messages = lines.map((line) => JSON.parse(line) as { readonly params?: { readonly name?: unknown; readonly arguments?: unknown } });
  return messages.filter(({ params }) => params?.name === name).map(({ params }) => params?.arguments);
}

async function invalidArguments(sidecar: RunningSidecar): Promise<unknown> {
  const { counters } = (await readStatus(sidecar)) as unknown as { counters: { policy: Record<string, unknown> } };
  return counters.policy["invalidArguments"];
}

function linesOf(sidecar: RunningSidecar, message: string): LogLine[] {
  return sidecar.logLines.filter(({ msg }) => msg === message);
}

/** Crashes the client's server; returns when the next generation answers a call. */
async function restart(sidecar: RunningSidecar, client: McpClient): Promise<void> {
  const { pid } = await readWhere(client);
  await crashProcess(sidecar, pid);
  await readWhere(client);
}

describe("the argument check in enforce mode", async () => {
  const twice = [1, 3].map((least) => withSchema("twice", { type: "object", properties: { query: { maxLength: 3, minLength: least } } }));
  const listed = disposeAfterAll(await ListedTools.create([...WITNESSES, SEARCH, ...twice]));
  const sidecar = disposeAfterAll(await start("enforce", listed));
  const client = await sidecar.client({ protocolVersion: "2025-03-26" });

  it.each([
    ['{"query":"a","query":"b"}', '"query" occurs twice in one object'],
    ['{"query":"a","Query":"b"}', '"Query" must be spelled "query"'],
    ['{"limit":500,"querry":"secret words"}', '"limit" must be <= 100'],
    ["[]", "must be an object"],
    ["null", "must be an object"],
  ])("the arguments %s are rejected with the problem, and not sent", async (args, problem) => {
    const before = await invalidArguments(sidecar);
    const reply = await client.post(`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"search","arguments":${args}}}`);
    expect(reply.status).toBe(200);
    const text = refusalOf(JSON.parse(reply.body) as JsonRpcMessage);
    expect(text).toMatch(/^INVALID_ARGS: .* the tool "search"\. The call was not sent to the server\.\n/);
    expect(text).toContain(problem);
    expect(await invalidArguments(sidecar)).toBe(Number(before) + 1);
    expect(sidecar.transcript()).not.toContain("secret words");
    expect(await receivedArgs(client, "search")).toEqual([]);
  });

  it("missing arguments are checked as an empty object", async () => {
    expect(refusalOf(await client.request("tools/call", { name: "search" }))).toContain("must have required property 'query'");
  });

  it("arguments that fail one of two tools with the same name are rejected", async () => {
    for (const query of ["ab", "four"]) expect(refusalOf(await client.callTool("twice", { query }))).toContain("query");
    expect(refusalOf(await client.callTool("twice", { query: "abc" }))).toBeUndefined();
    expect(await receivedArgs(client, "twice")).toEqual([{ query: "abc" }]);
  });

  it("the calls of a batch are checked one by one, and valid arguments are forwarded", async () => {
    const { body } = await client.post([toolCall("search", {}, "wrong"), toolCall("search", { query: "x" }, "right")]);
    const replies = new Map((JSON.parse(body) as JsonRpcMessage[]).map((reply) => [reply.id, refusalOf(reply)]));
    expect(replies.get("wrong")).toContain("must have required property 'query'");
    expect(replies.get("right")).toBeUndefined();
    expect(await receivedArgs(client, "search")).toEqual([{ query: "x" }]);
  });
});

describe("the argument check in other modes", () => {
  it.each([
    ["warn", 1],
    ["off", 0],
  ] as const)("wrong arguments are forwarded in mode %s, and logged %i times", async (mode, times) => {
    await using listed = await ListedTools.create([...WITNESSES, SEARCH]);
    await using sidecar = await start(mode, listed);
    const client = await sidecar.client();
    expect(JSON.parse(await client.toolText("search", WRONG))).toEqual(WRONG);
    expect(await invalidArguments(sidecar)).toBe(times);
    expect(linesOf(sidecar, "arguments violate the schema")).toMatchObject(
      Array.from({ length: times }, () => ({
        level: "warn",
        tool: "search",
        count: 3,
        reason: "the arguments must have required property 'query'",
      })),
    );
    expect(sidecar.transcript()).not.toContain("secret words");
  });
});

describe("an input schema", () => {
  it("an unusable schema is logged once, and calls of its tool are forwarded", async () => {
    const unusable = [withSchema("broken", { type: "objekt" }), withSchema("remote", { $ref: "https://127.0.0.1:1/x" })];
    await using listed = await ListedTools.create([...WITNESSES, ...unusable]);
    await using sidecar = await start("enforce", listed);
    const client = await sidecar.client();
    for (const name of ["broken", "broken", "remote"]) expect(await client.toolText(name, { a: 1 })).toBe('{"a":1}');
    await restart(sidecar, client);
    for (const name of ["remote", "broken"]) expect(await client.toolText(name, { a: 1 })).toBe('{"a":1}');
    await sidecar.stop();
    const skipped = linesOf(sidecar, "argument schema skipped");
    expect(skipped.map(({ tool }) => tool)).toEqual(["broken", "remote"]);
    expect(skipped[0]).toMatchObject({ level: "warn", reason: expect.stringContaining("it is not a JSON Schema") as string });
  });

  it.each(LANE_CLIENTS)("arguments are checked against the schema of the current generation ($lane)", async ({ connect }) => {
    const takes = (type: string): ListedTool => withSchema("store", { properties: { value: { type } } });
    await using listed = await ListedTools.create([...WITNESSES, takes("string")]);
    await using sidecar = await start("enforce", listed);
    const client: LaneClient = await connect(sidecar);
    expect(refusalOf(await client.callTool("store", { value: "x" }))).toBeUndefined();
    expect(refusalOf(await client.callTool("store", { value: 1 }))).toContain("must be string");
    await listed.list([...WITNESSES, takes("integer")]);
    await restart(sidecar, client);
    expect(refusalOf(await client.callTool("store", { value: 1 }))).toBeUndefined();
    expect(refusalOf(await client.callTool("store", { value: "x" }))).toContain("must be integer");
  });
});

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
  expect(await receivedArgs(other, "match")).toHaveLength(0);
});

it("each of 20,000 names is compared with all properties of the schema", async () => {
  const args = Object.fromEntries(NAMES.map((name) => [name === "property_19999" ? "PROPERTY_19999" : `${name}_`, 1]));
  expect(textOf(await other.callTool("wide", args))).toContain('- "PROPERTY_19999" must be spelled "property_19999"\n');
  expect(await receivedArgs(other, "wide")).toHaveLength(0);
});

it("an escaped name is checked in its decoded form, even after crafted calls", async () => {
  const deletion = (argsText: string): string =>
    `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"delete","arguments":${argsText}}}`;
  // The engine mistakes names that begin like these for names that it has seen in an object of the same shape (nodejs/node#63785).
  for (const poison of [String.raw`{"x":1,"f\\u00":1}`, String.raw`{"x":1,"i\\":1}`]) await other.post(deletion(poison));
  const reply = await other.post(deletion(String.raw`{"x":1,"f\u006frce":true}`));
  expect(textOf(JSON.parse(reply.body) as JsonRpcMessage)).toContain('- "force" must be equal to constant: false\n');
  // Only the two harmless calls arrived.
  expect(await receivedArgs(other, "delete")).toHaveLength(2);
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
