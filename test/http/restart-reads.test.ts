import { writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { Gate, QUICK_RESTART, crash, crashProcess, readSeen, readWhere, waitForSeen } from "../support/fixture-server.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import type { HttpReply } from "../support/http-client.ts";
import { LANE_CLIENTS, LaneClient } from "../support/lane-client.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const READS = [
  "tools/list",
  "resources/list",
  "resources/templates/list",
  "resources/read",
  "prompts/list",
  "prompts/get",
  "completion/complete",
];

async function mute(client: McpClient, ...methods: readonly string[]): Promise<void> {
  for (const method of methods) await client.callTool("mute", { method });
}

describe.each(LANE_CLIENTS)("a request in flight at a $lane server that is killed", ({ connect }) => {
  it("read-only requests are retried in order, ahead of later ones, each with its response", async () => {
    await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
    const client = await connect(sidecar);
    const { pid } = await readWhere(client);
    await mute(client, ...READS);
    const replies = READS.map((method, index) => client.request(method, { uri: `x://${index}` }, "same"));
    for (const method of READS) await waitForSeen(client, method);
    await crashProcess(sidecar, pid);
    const [tools, ...others] = await Promise.all(replies);
    expect([tools?.status, tools?.id, Array.isArray(tools?.result?.["tools"])]).toEqual([200, "same", true]);
    expect(others.map(({ result }) => result)).toEqual(
      READS.slice(1).map((method, index) => ({ method, params: { uri: `x://${index + 1}` } })),
    );
    // The next server has received each once, in order of arrival, before later requests.
    expect((await readSeen(client)).filter((method) => READS.includes(method))).toEqual(READS);
  });
});

describe("a request that waits to be retried", () => {
  async function startGated(gate: Gate): Promise<RunningSidecar> {
    await gate.open();
    return HttpBench.start({ mode: "gated", env: gate.env, flags: QUICK_RESTART });
  }

  /** Kills the server, which has got a read-only request of each client. The gate keeps the next one from getting ready. */
  async function interruptReads(sidecar: RunningSidecar, gate: Gate, clients: readonly McpClient[], leaving = new AbortController()) {
    const [control] = clients;
    if (control === undefined) throw new Error("no client");
    await mute(control, "resources/list");
    const read = { jsonrpc: "2.0", id: 7, method: "resources/list" };
    const reads = clients.map((client) => client.post(read, client === control ? { signal: leaving.signal } : {}));
    while ((await readSeen(control)).filter((method) => method === "resources/list").length < clients.length);
    await gate.close();
    await crash(sidecar);
    await sidecar.waitForLog("mcp server started", (line) => line["generation"] === 2);
    return reads;
  }

  it("a retry does not happen if the client disconnects, cancels the request or ends its session", async () => {
    await using gate = await Gate.create();
    await using sidecar = await startGated(gate);
    const [disconnecting, cancelling, ending] = [await sidecar.client(), await sidecar.client(), await sidecar.client()];
    const leaving = new AbortController();
    const [left, cancelled, ended] = await interruptReads(sidecar, gate, [disconnecting, cancelling, ending], leaving);
    leaving.abort();
    await expect(left).rejects.toThrow("abort");
    await sidecar.waitForLog("request given up", (line) => line["reason"] === "client disconnected");
    await cancelling.notify("notifications/cancelled", { requestId: 7 });
    expect([(await cancelled)?.status, (await cancelled)?.body]).toEqual([202, ""]);
    await ending.end();
    const data = { sent: true, retrySafe: true };
    expect(readError((await ended) as HttpReply)).toStrictEqual(errorReply(200, -32000, "REQUEST_CANCELLED", { id: 7, data }));
    await gate.open();
    await sidecar.waitForLog("mcp server ready", (line) => line["generation"] === 2);
    expect(await readSeen(await sidecar.client())).toEqual(["initialize", "notifications/initialized", "tools/call"]);
  });

  it("a draining sidecar waits for the retry", async () => {
    await using gate = await Gate.create();
    await using sidecar = await startGated(gate);
    const [reply] = await interruptReads(sidecar, gate, [await sidecar.client()]);
    sidecar.kill("SIGTERM");
    await gate.open();
    expect(JSON.parse((await reply)?.body ?? "")).toEqual({ jsonrpc: "2.0", id: 7, result: { method: "resources/list" } });
    expect(await sidecar.ended).toBe(0);
  });
});

describe("a call of a read-only tool in flight when the server is killed", () => {
  const TOOL = "wait_for_file";

  function start(flags: readonly string[]): Promise<RunningSidecar> {
    return HttpBench.start({ flags: [...QUICK_RESTART, ...flags], env: { FIXTURE_READ_ONLY: TOOL } });
  }

  async function arrival(sidecar: RunningSidecar, path: string, generation: number): Promise<void> {
    await sidecar.waitForLog(`waiting for ${path}`, (line) => line["generation"] === generation);
  }

  it.each(LANE_CLIENTS)("the next server answers the call with --retry read-only, $lane", async ({ connect }) => {
    await using dir = await TempDir.create();
    await using sidecar = await start(["--retry", "read-only"]);
    const client = await connect(sidecar);
    await waitForSeen(client, "tools/list");
    const { pid } = await readWhere(client);
    const path = dir.file("go");
    const [repeated, other] = [client.callTool(TOOL, { path }), client.callTool("hang")];
    await arrival(sidecar, path, 1);
    await waitForSeen(client, "tools/call");
    await crashProcess(sidecar, pid);
    expect((await other).error?.data).toMatchObject({ code: "UPSTREAM_EXITED", sent: true, retrySafe: false });
    await arrival(sidecar, path, 2);
    await writeFile(path, "");
    expect((await repeated).result?.content?.[0]?.text).toBe("the file is there");
  });

  it("the call fails if its client has seen its progress", async () => {
    await using sidecar = await start(["--retry", "read-only"]);
    const client = await LaneClient.connectShared(sidecar);
    await waitForSeen(client, "tools/list");
    using stream = await client.begin(TOOL, { path: "/never" }, 3, { progressToken: "t" });
    expect((await stream.next()).params).toEqual({ progressToken: "t", progress: 1 });
    await crash(sidecar);
    expect((await stream.answer()).error?.data).toMatchObject({ code: "UPSTREAM_EXITED", retrySafe: true });
  });
});
