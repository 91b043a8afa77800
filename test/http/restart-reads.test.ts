import { writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { crash, crashProcess } from "../support/crash.ts";
import { errorData } from "../support/error-reply.ts";
import { Gate } from "../support/gate.ts";
import type { HttpReply } from "../support/http-client.ts";
import { readSeen, readWhere, waitForSeen } from "../support/in-flight.ts";
import { LaneClient } from "../support/lane-client.ts";
import { LANE_CLIENTS } from "../support/lanes.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const QUICK_RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "20"];
/** Flags for a backoff that outlasts every test. */
const NO_RESTART = ["--restart-backoff-ms", "600000", "--restart-max-ms", "600000"];
const READS = [
  "tools/list",
  "resources/list",
  "resources/templates/list",
  "resources/read",
  "prompts/list",
  "prompts/get",
  "completion/complete",
];

/** Makes this client's server leave these requests unanswered. */
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

  it("a read-only request fails with 200 if no server follows in time", async () => {
    await using sidecar = await HttpBench.start({ flags: [...NO_RESTART, "--hold-timeout-ms", "50"] });
    const client = await connect(sidecar);
    const { pid } = await readWhere(client);
    await mute(client, "resources/list");
    const reply = client.request("resources/list");
    await waitForSeen(client, "resources/list");
    await crashProcess(sidecar, pid);
    const { status, error } = await reply;
    const { retryAfterSeconds, ...data } = error?.data ?? {};
    expect([status, data]).toEqual([200, errorData("UPSTREAM_NOT_READY", { sent: true, retrySafe: true })]);
    expect(retryAfterSeconds).toBeGreaterThan(1);
    expect(error?.message).toBe(
      "The MCP server is not ready: backing-off (last exit: ended by SIGKILL). The request was sent, but only reads; it is safe to retry.",
    );
  });
});

describe("a request that waits to be retried", () => {
  /** Sends a read-only request to a server that is then killed. The gate keeps the next server from getting ready. */
  async function interruptedRead(
    sidecar: RunningSidecar,
    gate: Gate,
    client: McpClient,
    leaving?: AbortController,
  ): Promise<{ reply: Promise<HttpReply> }> {
    await mute(client, "resources/list");
    const request = { jsonrpc: "2.0", id: 7, method: "resources/list" };
    const reply = client.post(request, leaving === undefined ? {} : { signal: leaving.signal });
    await waitForSeen(client, "resources/list");
    await gate.close();
    await crash(sidecar);
    await sidecar.waitForLog("mcp server started", (line) => line["generation"] === 2);
    return { reply };
  }

  /** Returns the requests that the next server has received, once it runs. */
  async function heard(sidecar: RunningSidecar, gate: Gate): Promise<string[]> {
    await gate.open();
    await sidecar.waitForLog("mcp server ready", (line) => line["generation"] === 2);
    return readSeen(await sidecar.client());
  }

  const NOTHING = ["initialize", "notifications/initialized", "tools/call"];

  async function startGated(gate: Gate): Promise<RunningSidecar> {
    await gate.open();
    return HttpBench.start({ mode: "gated", env: gate.env, flags: QUICK_RESTART });
  }

  it("a retry does not happen if the client disconnects", async () => {
    await using gate = await Gate.create();
    await using sidecar = await startGated(gate);
    const leaving = new AbortController();
    const { reply } = await interruptedRead(sidecar, gate, await sidecar.client(), leaving);
    const left = reply.catch((error: unknown) => String(error));
    leaving.abort();
    expect(await left).toContain("aborted");
    await sidecar.waitForLog("request given up", (line) => line["reason"] === "client disconnected");
    expect(await heard(sidecar, gate)).toEqual(NOTHING);
  });

  it("a retry does not happen if the client cancels the request", async () => {
    await using gate = await Gate.create();
    await using sidecar = await startGated(gate);
    const client = await sidecar.client();
    const { reply } = await interruptedRead(sidecar, gate, client);
    await client.post({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 7 } });
    expect([(await reply).status, (await reply).body]).toEqual([202, ""]);
    expect(await heard(sidecar, gate)).toEqual(NOTHING);
  });

  it("the request ends with its session", async () => {
    await using gate = await Gate.create();
    await using sidecar = await startGated(gate);
    const client = await sidecar.client();
    const { reply } = await interruptedRead(sidecar, gate, client);
    await client.end();
    expect((await reply).status).toBe(200);
    expect(JSON.parse((await reply).body)).toMatchObject({
      id: 7,
      error: { data: errorData("REQUEST_CANCELLED", { sent: true, retrySafe: true }) },
    });
    expect(await heard(sidecar, gate)).toEqual(NOTHING);
  });

  it("a draining sidecar waits for the retry", async () => {
    await using gate = await Gate.create();
    await using sidecar = await startGated(gate);
    const { reply } = await interruptedRead(sidecar, gate, await sidecar.client());
    sidecar.kill("SIGTERM");
    await gate.open();
    expect(JSON.parse((await reply).body)).toEqual({ jsonrpc: "2.0", id: 7, result: { method: "resources/list" } });
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

  it("the call fails, safe to retry, if a second server is killed", async () => {
    await using dir = await TempDir.create();
    await using sidecar = await start(["--retry", "read-only"]);
    const client = await sidecar.client();
    await waitForSeen(client, "tools/list");
    const path = dir.file("never");
    const reply = client.callTool(TOOL, { path });
    for (const generation of [1, 2]) {
      await arrival(sidecar, path, generation);
      await crash(sidecar);
    }
    expect((await reply).error?.data).toEqual(errorData("UPSTREAM_EXITED", { sent: true, retrySafe: true, signal: "SIGKILL" }));
    expect(await readSeen(client)).toEqual(["initialize", "notifications/initialized", "tools/list", "tools/call"]);
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

  it.each([{ flags: [] }, { flags: ["--retry", "off"] }])(
    "the call fails with $flags, and servers are not asked for tools",
    async ({ flags }) => {
      await using sidecar = await start(flags);
      const client = await sidecar.client();
      const reply = client.callTool(TOOL, { path: "/never" });
      await arrival(sidecar, "/never", 1);
      await crash(sidecar);
      expect((await reply).error?.data).toMatchObject({ code: "UPSTREAM_EXITED", sent: true, retrySafe: false });
      expect(await readSeen(client)).toEqual(["initialize", "notifications/initialized", "tools/call"]);
    },
  );
});
