import { describe, expect, it } from "vitest";
import { readWhere } from "../support/fixture-server.ts";
import { LaneClient } from "../support/lane-client.ts";
import { ASKABLE, initializeRequest, McpClient } from "../support/mcp-client.ts";
import { groupEnd } from "../support/process-end.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";

/** Returns a client with a session that another client's initialize has opened. */
function resume({ url }: RunningSidecar, sessionId: unknown): McpClient {
  return new McpClient(url, { sessionId: String(sessionId) });
}

async function readLines(client: McpClient): Promise<string[]> {
  return JSON.parse(await client.toolText("lines")) as string[];
}

const ALONE = ["--isolation", "session"];

describe("the initialize of a client that accepts server requests", () => {
  it("a client that declares sampling, elicitation or roots gets a private server, which equal sessions share", async () => {
    await using sidecar = await HttpBench.start();
    const pids = [sidecar.childPid];
    const declared = [{ sampling: {} }, { elicitation: {} }, { roots: {} }, { roots: {}, experimental: {} }];
    for (const capabilities of declared) pids.push((await LaneClient.connect(sidecar, capabilities)).childPid);
    expect(pids.map((pid) => pids.indexOf(pid))).toEqual([0, 1, 2, 3, 3]);
  });

  it("with ISOLATION=session, initialize reaches the server byte for byte, except for its id", async () => {
    await using sidecar = await HttpBench.start({ mode: "newline-only", flags: ALONE });
    const body = (id: string): string =>
      String.raw`{ "params":{"clientInfo":{"version":"1","name":"caf\u00e9","icons":[{"src":"a\/b","x":-0}]},"capabilities":{"x-vendor":{"big":9007199254740993,"10":1,"2":2},"sampling":{"tools":{},"y":1e400},"experimental":{"\ud800":null},"id":7},"protocolVersion":"2025-11-25","_meta":{"x":[1.50]}},"method":"initialize","id": ${id} ,"jsonrpc":"2.0"}`;
    const reply = await new McpClient(sidecar.url).post(body(`"my id"`));
    expect(reply.status).toBe(200);
    const [initialize, ...others] = await readLines(resume(sidecar, reply.headers["mcp-session-id"]));
    expect(initialize).toBe(body("0"));
    // The client's own notification may have reached another replica.
    expect(others.map((line) => (JSON.parse(line) as { method: string }).method)).toEqual(["notifications/initialized", "tools/call"]);
  });

  it("with ISOLATION=session, an initialize with line breaks is one line for the server, otherwise unchanged", async () => {
    await using sidecar = await HttpBench.start({ flags: ALONE });
    const text = JSON.stringify(initializeRequest(ASKABLE), undefined, 2).replace(`"id": 1`, `"id": "x"`);
    const reply = await new McpClient(sidecar.url).post(text.replaceAll("\n", "\r\n"));
    const [line] = await readLines(resume(sidecar, reply.headers["mcp-session-id"]));
    expect(line).toBe(text.replaceAll("\n", "  ").replace(`"id": "x"`, `"id": 0`));
  });

  it("the client gets the server's own result, byte for byte", async () => {
    const result = String.raw`{ "serverInfo":{"version":1.0,"name":"\u0066ixture"} ,"x":9007199254740993,"capabilities":{"tasks":{"list":{},"cancel":{}},"tools":{"listChanged":true},"10":{},"2":{}},"protocolVersion":"2025-06-18","instructions":"a\/b"}`;
    await using sidecar = await HttpBench.start({ env: { FIXTURE_INITIALIZE_RESULT: result } });
    const text = JSON.stringify(initializeRequest(ASKABLE)).replace(`"id":1,`, `"id":12345678901234567890,`);
    const reply = await new McpClient(sidecar.url).post(text);
    expect([reply.status, reply.headers["content-type"]]).toEqual([200, "application/json"]);
    expect(reply.body).toBe(`{"jsonrpc":"2.0","id":12345678901234567890,"result":${result}}`);
    expect(reply.headers["mcp-session-id"]).toMatch(/^[\x21-\x7e]{32,}$/);
  });

  it("the client gets the revision that the server chose, not the requested one", async () => {
    await using sidecar = await HttpBench.start({ mode: "old" });
    const privateReply = await new McpClient(sidecar.url).post(initializeRequest({ roots: {} }));
    expect(JSON.parse(privateReply.body)).toMatchObject({ result: { protocolVersion: "2024-11-05" } });
    // The sidecar itself supports all of them.
    const sharedReply = await new McpClient(sidecar.url).post(initializeRequest());
    expect(JSON.parse(sharedReply.body)).toMatchObject({ result: { protocolVersion: "2025-11-25" } });
  });

  it("with ISOLATION=session, the client's own notifications/initialized is forwarded unchanged", async () => {
    await using sidecar = await HttpBench.start({ flags: ALONE });
    const reply = await new McpClient(sidecar.url).post(initializeRequest(ASKABLE));
    const client = resume(sidecar, reply.headers["mcp-session-id"]);
    const initialized = `{ "params":{"_meta":{"x":1.0}},"method":"notifications/initialized" ,"jsonrpc":"2.0"}`;
    expect(await client.post(initialized)).toMatchObject({ status: 202, body: "" });
    expect((await readLines(client))[1]).toBe(initialized);
  });

  it("a server's error reaches the client with 200 and no session, and the process ends", async () => {
    await using sidecar = await HttpBench.start({ mode: "refuse-clients" });
    const sharedPid = sidecar.childPid;
    const reply = await new McpClient(sidecar.url).post(JSON.stringify(initializeRequest(ASKABLE)).replace(`"id":1,`, `"id":1.0,`));
    expect(reply.status).toBe(200);
    expect(reply.headers).not.toHaveProperty("mcp-session-id");
    expect(reply.body).toBe(`{"jsonrpc":"2.0","id":1.0,"error":{"code":-32603,"message":"no license"}}`);
    await groupEnd(await sidecar.waitForChild(sharedPid));
    // No state remains: the next initialize is forwarded again.
    expect((await new McpClient(sidecar.url).post(initializeRequest(ASKABLE))).body).toContain("no license");
    expect((await sidecar.client()).sessionId).not.toBe("");
    expect(sidecar.logLines.filter(({ msg }) => msg === "mcp server will be restarted")).toEqual([]);
  });

  it("the client gets 503, and the process ends, when the server never answers", async () => {
    await using sidecar = await HttpBench.start({ mode: "silent", untilReady: false, flags: ["--request-timeout-ms", "300"] });
    await sidecar.waitForLog("mcp server started");
    const sharedPid = sidecar.childPid;
    const reply = await new McpClient(sidecar.url).post(initializeRequest(ASKABLE));
    expect(reply.status).toBe(503);
    expect(JSON.parse(reply.body)).toMatchObject({ id: 1, error: { data: { code: "UPSTREAM_NOT_READY", sent: false } } });
    await groupEnd(await sidecar.waitForChild(sharedPid));
  });
});

describe("isolation", () => {
  it("auto lets clients with other capabilities use the shared server", async () => {
    await using sidecar = await HttpBench.start();
    const { childPid } = sidecar;
    for (const capabilities of [{}, { experimental: { x: {} } }, { tasks: {} }, { extensions: {} }]) {
      expect((await LaneClient.connect(sidecar, capabilities)).childPid).toBe(childPid);
    }
    expect(sidecar.logLines.filter(({ msg }) => msg === "mcp server started")).toHaveLength(1);
  });

  it("shared makes all clients use the shared server, and rejects the server's requests", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--isolation", "shared"] });
    const client = await LaneClient.connect(sidecar);
    expect(client.childPid).toBe((await readWhere(await sidecar.client())).pid);
    expect(JSON.parse(await client.toolText("ask", { method: "roots/list" }))).toMatchObject({ error: { code: -32601 } });
    expect(sidecar.logLines.filter(({ msg }) => msg === "mcp server started")).toHaveLength(1);
  });
});
