import { describe, expect, it } from "vitest";
import { send } from "../support/http-client.ts";
import type { JsonRpcMessage } from "../support/json-rpc.ts";
import { type ListedTool, ListedTools, WITNESSES } from "../support/listed-tools.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";

/** A pattern whose matching time doubles with each letter. */
const MATCH: ListedTool = { name: "match", inputSchema: { properties: { text: { pattern: "^(a+)+$" } } } };
const ECHO: ListedTool = { name: "repeat", inputSchema: { properties: { n: { type: "integer" } } } };
const SLOW = { text: `${"a".repeat(5000)}!` };
const TOO_LONG = "- the arguments take too long to be checked\n";

function start(listed: ListedTools, mode: "warn" | "enforce" = "enforce"): Promise<RunningSidecar> {
  return HttpBench.start({ flags: ["--argument-check", mode], env: listed.env });
}

function textOf({ result }: JsonRpcMessage): string {
  return result?.content?.[0]?.text ?? "";
}

/** Returns how many calls of this tool the server has received. */
async function countReceived(client: McpClient, name: string): Promise<number> {
  const lines = JSON.parse(await client.toolText("lines")) as string[];
  return lines.filter((line) => (JSON.parse(line) as { params?: { name?: unknown } }).params?.name === name).length;
}

async function policyCounters(sidecar: RunningSidecar): Promise<unknown> {
  const { counters } = await readStatus(sidecar);
  return counters.policy;
}

/** Sends `count` slow calls; returns once the sidecar has accepted half of them. */
async function beginSlowCalls(sidecar: RunningSidecar, client: McpClient, count: number, signal?: AbortSignal) {
  const calls = Array.from({ length: count }, (_unused, index) =>
    client.callTool("match", SLOW, index, signal === undefined ? {} : { signal }).catch(() => undefined),
  );
  while ((await readStatus(sidecar)).lanes.shared.requestsInFlight < count / 2) await new Promise(setImmediate);
  return calls;
}

describe("arguments that take too long to check", () => {
  it("slow arguments are rejected, while another client's calls are checked and forwarded", async () => {
    await using listed = await ListedTools.create([...WITNESSES, MATCH, ECHO]);
    await using sidecar = await start(listed);
    const [attacker, other] = await Promise.all([sidecar.client(), sidecar.client()]);
    const order: string[] = [];
    const slow = Array.from({ length: 6 }, (_unused, id) =>
      attacker.callTool("match", SLOW, id).then((reply) => {
        order.push("slow");
        return reply;
      }),
    );
    for (let n = 0; n < 3; n++) expect(await other.toolText("repeat", { n })).toBe(JSON.stringify({ n }));
    order.push("other");
    for (const reply of await Promise.all(slow)) {
      expect([reply.status, reply.result?.["isError"]]).toEqual([200, true]);
      expect(textOf(reply)).toContain(TOO_LONG);
    }
    // The other client's calls took turns with the slow ones.
    expect(order.indexOf("other")).toBeLessThan(6);
    expect([await countReceived(other, "match"), await countReceived(other, "repeat")]).toEqual([0, 3]);
    expect(await policyCounters(sidecar)).toMatchObject({ invalidArguments: 6, argumentChecksGivenUp: 6 });
    expect(textOf(await attacker.callTool("match", { text: "b" }))).toContain("must match the pattern");
    expect(sidecar.logLines.map(({ msg }) => msg)).not.toContain("argument schema skipped");
  });

  it("slow arguments are forwarded and logged in warn mode", async () => {
    await using listed = await ListedTools.create([...WITNESSES, MATCH]);
    await using sidecar = await start(listed, "warn");
    const client = await sidecar.client();
    expect(JSON.parse(await client.toolText("match", SLOW))).toEqual(SLOW);
    expect(await sidecar.waitForLog("arguments violate the schema")).toMatchObject({
      tool: "match",
      reason: "the arguments take too long to be checked",
    });
  });

  it("each slow call is answered once and never sent if its session ends", async () => {
    await using listed = await ListedTools.create([...WITNESSES, MATCH]);
    await using sidecar = await start(listed);
    const [client, other] = await Promise.all([sidecar.client(), sidecar.client()]);
    const calls = await beginSlowCalls(sidecar, client, 10);
    await send(sidecar.url, { method: "DELETE", headers: { "Mcp-Session-Id": client.sessionId } });
    const replies = (await Promise.all(calls)).filter((reply) => reply !== undefined);
    const outcomes = replies.map((reply) => reply.error?.data?.["code"] ?? (textOf(reply).includes(TOO_LONG) ? "TOO_LONG" : "other"));
    expect(replies).toHaveLength(10);
    expect(new Set(outcomes).difference(new Set(["TOO_LONG", "REQUEST_CANCELLED", "SESSION_NOT_FOUND"]))).toEqual(new Set());
    expect(outcomes).toContain("REQUEST_CANCELLED");
    expect(await countReceived(other, "match")).toBe(0);
  });

  it("slow calls are dropped if their client disconnects", async () => {
    await using listed = await ListedTools.create([...WITNESSES, MATCH]);
    await using sidecar = await start(listed);
    const [client, other] = await Promise.all([sidecar.client(), sidecar.client()]);
    const leave = new AbortController();
    const calls = await beginSlowCalls(sidecar, client, 10, leave.signal);
    leave.abort();
    await Promise.all(calls);
    await sidecar.waitForLog("request given up", ({ reason }) => reason === "client disconnected");
    expect(await countReceived(other, "match")).toBe(0);
    expect((await readStatus(sidecar)).lanes.shared).toEqual({ requestsInFlight: 0, suspended: 0, waiting: 0, queuedBytes: 0 });
  });

  it("slow calls are answered before the sidecar exits", async () => {
    await using listed = await ListedTools.create([...WITNESSES, MATCH]);
    await using sidecar = await start(listed);
    const calls = await beginSlowCalls(sidecar, await sidecar.client(), 4);
    sidecar.kill("SIGTERM");
    for (const reply of await Promise.all(calls)) {
      const code = reply?.error?.data?.["code"];
      expect([code ?? "TOO_LONG", code === undefined && reply !== undefined ? textOf(reply) : TOO_LONG]).toEqual([
        expect.stringMatching(/^(?:TOO_LONG|SHUTTING_DOWN)$/),
        expect.stringContaining(TOO_LONG),
      ]);
    }
    expect(await sidecar.ended).toBe(0);
  });
});

describe("arguments with 20,000 names", () => {
  it("each name is compared with all properties of the schema", async () => {
    const names = Array.from({ length: 20_000 }, (_unused, index) => `property_${index}`);
    const wide: ListedTool = { name: "wide", inputSchema: { properties: Object.fromEntries(names.map((name) => [name, {}])) } };
    await using listed = await ListedTools.create([...WITNESSES, wide]);
    await using sidecar = await start(listed);
    const client = await sidecar.client();
    const args = Object.fromEntries(names.map((name) => [name === "property_19999" ? "PROPERTY_19999" : `${name}_`, 1]));
    expect(textOf(await client.callTool("wide", args))).toContain('- "PROPERTY_19999" must be spelled "property_19999"\n');
    expect(await countReceived(client, "wide")).toBe(0);
  });
});

describe("argument names with escapes", () => {
  it("an escaped name is checked in its decoded form, even after crafted calls", async () => {
    const force: ListedTool = { name: "delete", inputSchema: { properties: { force: { const: false } } } };
    await using listed = await ListedTools.create([...WITNESSES, force]);
    await using sidecar = await start(listed);
    const client = await sidecar.client();
    const call = (argsText: string): string =>
      `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"delete","arguments":${argsText}}}`;
    // The engine mistakes names that begin like these for names that it has seen in an object of the same shape (nodejs/node#63785).
    for (const poison of [String.raw`{"x":1,"f\\u00":1}`, String.raw`{"x":1,"i\\":1}`]) await client.post(call(poison));
    const reply = await client.post(call(String.raw`{"x":1,"f\u006frce":true}`));
    expect(textOf(JSON.parse(reply.body) as JsonRpcMessage)).toContain("- `force` must be false\n");
    // Only the two harmless calls arrived.
    expect(await countReceived(client, "delete")).toBe(2);
  });
});
