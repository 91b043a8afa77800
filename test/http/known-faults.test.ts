import { writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { crash } from "../support/crash.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { Gate } from "../support/gate.ts";
import { answerOf, progressOf, say } from "../support/held-call.ts";
import { send } from "../support/http-client.ts";
import { readSeen, readWhere, timeoutFlags, waitForHanging } from "../support/in-flight.ts";
import { readMessages } from "../support/json-rpc.ts";
import { McpClient } from "../support/mcp-client.ts";
import { getBytes, postBytes } from "../support/mcp-request-bytes.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { waitForGeneration } from "../support/readiness.ts";
import { HttpBench } from "../support/http-bench.ts";
import { isAlive } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const QUICK_RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "20"];
const INITIALIZE = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "raw", version: "1" } },
};

/** The 17 faults of the program that this one replaces, each shown by the present behaviour. */
describe("the known faults", () => {
  it("fault 1: a server request is not mistaken for the response with its id", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    const hanging = client.callTool("hang");
    const [wireId = -1] = await waitForHanging(client, 1);
    expect(JSON.parse(await client.toolText("ask", { id: wireId, method: "roots/list" }))).toMatchObject({
      id: wireId,
      error: { code: -32601 },
    });
    await client.toolText("release");
    expect((await hanging).result?.content?.[0]?.text).toBe(`released ${wireId}`);
  });

  it("fault 2: a 4.5 MB line is delivered; a longer one fails only its request", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-line-bytes", "5000000"] });
    const client = await sidecar.client();
    expect(await client.toolText("big", { length: 4_500_000 })).toHaveLength(4_500_000);
    expect((await client.callTool("big", { length: 5_500_000 })).error?.data?.["code"]).toBe("UPSTREAM_RESPONSE_TOO_LARGE");
    expect(await client.toolText("echo", { text: "not wedged" })).toBe("not wedged");
  });

  it("fault 3: a stderr line over 64 KB does not block the server", async () => {
    await using sidecar = await HttpBench.start();
    expect(await (await sidecar.client()).toolText("stderr", { length: 500_000 })).toBe("written");
  });

  it("fault 4: a server that does not read delays only its own requests", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--request-timeout-ms", "1000"] });
    const client = await sidecar.client();
    await client.toolText("stop_reading");
    const stuck = [1, 2, 3].map((id) => client.callTool("echo", { padding: "p".repeat(300_000) }, id));
    const healthz = await send(`${sidecar.origin}/healthz`, { method: "GET" });
    expect(healthz.status).toBe(200);
    expect((await new McpClient(sidecar.url).post(INITIALIZE)).status).toBe(200);
    for (const { error } of await Promise.all(stuck)) expect(error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
  });

  it("fault 5: a response written just before the exit is delivered", async () => {
    await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
    const client = await sidecar.client();
    for (let generation = 1; generation <= 5; generation++) {
      expect(await client.toolText("answer_and_exit", { lineEnd: "" })).toBe("last words");
      await sidecar.waitForLog("mcp server exited", (line) => line["generation"] === generation);
    }
  });

  it("fault 6: shutdown finishes requests in flight and ends all processes of the server", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await HttpBench.start({ mode: "grandchild" });
    const client = await sidecar.client();
    const { pid, grandchildPid = 0 } = await readWhere(client);
    const path = directory.file("release");
    const inFlight = client.toolText("wait_for_file", { path });
    await sidecar.waitForLog(`waiting for ${path}`);
    const stopped = sidecar.stop();
    await sidecar.waitForLog("stopping");
    await writeFile(path, "");
    expect(await inFlight).toBe("the file is there");
    expect(await stopped).toBe(0);
    expect([isAlive(pid), isAlive(grandchildPid)]).toEqual([false, false]);
  });

  it("fault 7: timeouts, disconnects and cancellations reach the server with its own request id", async () => {
    await using sidecar = await HttpBench.start({ flags: timeoutFlags(2000) });
    const client = await sidecar.client();
    const leaving = new AbortController();
    const hang = { method: "tools/call", params: { name: "hang", arguments: {} } };
    const timedOut = client.callTool("hang", {}, "timeout");
    await waitForHanging(client, 1);
    const cancelled = client.post({ jsonrpc: "2.0", id: "cancelled", ...hang });
    await waitForHanging(client, 2);
    const left = client.callTool("hang", {}, "disconnected", { signal: leaving.signal }).catch(String);
    const [timeoutId, cancelledId, disconnectedId] = await waitForHanging(client, 3);
    await client.notify("notifications/cancelled", { requestId: "cancelled" });
    leaving.abort();
    expect(await left).toContain("aborted");
    expect((await cancelled).status).toBe(202);
    expect((await timedOut).error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
    const seen = (await readSeen(client)).filter((method) => method.startsWith("notifications/cancelled"));
    expect(seen).toEqual([cancelledId, disconnectedId, timeoutId].map((wireId) => `notifications/cancelled ${wireId}`));
  });

  it("fault 8: the server does not get the token; a wrong token is rejected", async () => {
    await using sidecar = await HttpBench.start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN: "right-token", FIXTURE_API_KEY: "for the server" } });
    const client = await sidecar.client({ token: "right-token" });
    const environment = JSON.parse(await client.toolText("env")) as Record<string, string>;
    expect(Object.keys(environment).filter((name) => name.startsWith("CLAW_MCP_STDIO_"))).toEqual([]);
    expect(environment["FIXTURE_API_KEY"]).toBe("for the server");
    const refused = await client.post(INITIALIZE, { headers: { Authorization: "Bearer wrong-token" } });
    expect([refused.status, refused.headers["www-authenticate"]]).toEqual([401, 'Bearer realm="mcp", error="invalid_token"']);
  });

  it("fault 9: /healthz is 200 only after the server's handshake", async () => {
    await using gate = await Gate.create();
    await using sidecar = await HttpBench.start({ mode: "gated", env: gate.env, untilReady: false });
    expect((await send(`${sidecar.origin}/healthz`, { method: "GET" })).status).toBe(503);
    await gate.open();
    await sidecar.waitForLog("mcp server ready");
    expect((await send(`${sidecar.origin}/healthz`, { method: "GET" })).status).toBe(200);
  });

  it("fault 10: GET opens a stream, notifications reach their client, and DELETE ends the session", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    using stream = await client.openStream();
    const params = { name: "progress", arguments: { steps: 1 }, _meta: { progressToken: 1 } };
    const reply = await client.post({ jsonrpc: "2.0", id: 7, method: "tools/call", params });
    expect(readMessages(reply)).toEqual([progressOf(1, 1), answerOf()]);
    const changed = { jsonrpc: "2.0", method: "notifications/tools/list_changed" };
    await say(client, JSON.stringify(changed));
    expect((await client.end()).status).toBe(204);
    expect(await stream.rest()).toEqual([changed]);
    expect((await client.callTool("echo")).status).toBe(404);
  });

  it("fault 11: sessions are limited, and the least recently used one is evicted", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-sessions", "2", "--session-max-age-ms", "1"] });
    const [first, second] = [await sidecar.client(), await sidecar.client()];
    expect(await first.toolText("echo", { text: "used" })).toBe("used");
    const third = await sidecar.client();
    expect((await second.callTool("echo")).status).toBe(404);
    expect([(await first.callTool("echo")).status, (await third.callTool("echo")).status]).toEqual([200, 200]);
  });

  it("fault 12: a large body gets 413, no session 400, a client's response 202", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-body-bytes", "1000"] });
    const client = await sidecar.client();
    expect((await client.post(" ".repeat(1001))).status).toBe(413);
    const withoutSession = await new McpClient(sidecar.url).post({ jsonrpc: "2.0", id: 2, method: "ping" });
    expect(readError(withoutSession)).toEqual(errorReply(400, -32000, "SESSION_REQUIRED", { id: 2 }));
    expect((await client.post({ jsonrpc: "2.0", id: 1, result: {} })).status).toBe(202);
  });

  it("fault 13: a timeout is a JSON-RPC error with HTTP 200", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--request-timeout-ms", "100"] });
    const { status, error } = await (await sidecar.client()).callTool("hang");
    expect([status, error?.code]).toEqual([200, -32001]);
  });

  it("fault 14: neither requests in flight nor a departed client delay an initialize request", async () => {
    await using gate = await Gate.create();
    await using sidecar = await HttpBench.start({ mode: "gated", env: gate.env, untilReady: false });
    const leaving = await RawConnection.open(sidecar.origin);
    await leaving.write(getBytes("/livez") + postBytes(INITIALIZE));
    // The initialize request after it has arrived, too.
    await leaving.reply();
    const staying = Array.from({ length: 20 }, () => new McpClient(sidecar.url).post(INITIALIZE));
    leaving[Symbol.dispose]();
    await gate.open();
    expect(new Set((await Promise.all(staying)).map((reply) => reply.headers["mcp-session-id"])).size).toBe(20);

    const client = await sidecar.client();
    const hanging = client.callTool("hang");
    await waitForHanging(client, 1);
    expect((await new McpClient(sidecar.url).post(INITIALIZE)).status).toBe(200);
    await client.toolText("release");
    expect((await hanging).status).toBe(200);
  });

  it("fault 15: initialize is answered correctly while the server crashes repeatedly", async () => {
    await using sidecar = await HttpBench.start({ flags: QUICK_RESTART });
    const expected = JSON.parse((await new McpClient(sidecar.url).post(INITIALIZE)).body) as unknown;
    for (let generation = 1; generation <= 3; generation++) {
      const before = Array.from({ length: 10 }, () => new McpClient(sidecar.url).post(INITIALIZE));
      await crash(sidecar);
      const after = Array.from({ length: 10 }, () => new McpClient(sidecar.url).post(INITIALIZE));
      for (const reply of await Promise.all([...before, ...after])) {
        expect(reply.status).toBe(200);
        expect(JSON.parse(reply.body)).toEqual(expected);
      }
    }
  });

  it("fault 16: the backoff starts over after a stable run", async () => {
    const flags = ["--restart-backoff-ms", "10", "--restart-max-ms", "300", "--request-timeout-ms", "500"];
    await using sidecar = await HttpBench.start({ flags });
    const client = await sidecar.client();
    const pauseBefore = async (generation: number): Promise<unknown> => {
      await waitForGeneration(sidecar, generation - 1);
      await client.callTool("exit");
      return (await sidecar.waitForLog("mcp server will be restarted", (line) => line["restarts"] === generation - 1))["pauseMs"];
    };
    expect(await pauseBefore(2)).toBe(10);
    expect(await pauseBefore(3)).toBeGreaterThan(10);
    await waitForGeneration(sidecar, 3);
    // A call that times out shows that the run has lasted longer than the longest pause.
    expect((await client.callTool("hang")).error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
    expect(await pauseBefore(4)).toBe(10);
  });

  it("fault 17: the sidecar completes the handshake once, independently of its clients", async () => {
    await using sidecar = await HttpBench.start();
    const silent = new McpClient(sidecar.url);
    const reply = await silent.post(INITIALIZE);
    silent.sessionId = String(reply.headers["mcp-session-id"]);
    const usual = await sidecar.client();
    expect(await silent.toolText("echo", { text: "initialized" })).toBe("initialized");
    expect(await readSeen(usual)).toEqual(["initialize", "notifications/initialized", "tools/call", "tools/call"]);
  });
});
