import { describe, expect, it } from "vitest";
import { Gate, NO_RESTART, QUICK_RESTART, crash, readSeen, timeoutFlags, waitForHanging } from "../support/fixture-server.ts";
import { errorReply, readError, errorData } from "../support/error-reply.ts";
import type { HttpReply } from "../support/http-client.ts";
import { initializeRequest, McpClient, toolCall } from "../support/mcp-client.ts";
import { waitForGeneration } from "../support/status.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { RawConnection, getBytes, postBytes } from "../support/raw-connection.ts";

/** Starts a sidecar with a ready server. While the gate is closed, a later generation does not get ready. */
async function startGated(gate: Gate, flags: readonly string[] = []): Promise<RunningSidecar> {
  await gate.open();
  return HttpBench.start({ mode: "gated", env: gate.env, flags: [...QUICK_RESTART, ...flags] });
}

async function crashBehindGate(sidecar: RunningSidecar, gate: Gate): Promise<void> {
  await gate.close();
  await crash(sidecar);
  await sidecar.waitForLog("mcp server started", (line) => line["generation"] === 2);
}

/** Posts one request more than can be held; the rejected one shows that the others are held. */
async function holdAll(posts: readonly (() => Promise<HttpReply>)[]): Promise<{ refused: HttpReply; held: Promise<HttpReply[]> }> {
  const replies = posts.map((post) => post());
  const refused = await Promise.race(replies);
  const held = Promise.all(replies).then((all) => all.filter((reply) => reply !== refused));
  return { refused, held };
}

it("the next generation answers held requests; those above MAX_HELD_REQUESTS are rejected at once", async () => {
  await using gate = await Gate.create();
  await using sidecar = await startGated(gate, ["--max-held-requests", "5"]);
  const client = await sidecar.client();
  await crashBehindGate(sidecar, gate);
  const { refused, held } = await holdAll(
    Array.from({ length: 6 }, (_, index) => () => client.post(toolCall("echo", { text: `text ${index}` }, index))),
  );
  expect(refused.headers["retry-after"]).toBe("1");
  const { id } = JSON.parse(refused.body) as { id: number };
  expect(readError(refused)).toEqual(
    errorReply(503, -32000, "UPSTREAM_NOT_READY", { id, data: { sent: false, retrySafe: true, retryAfterSeconds: 1 } }),
  );
  expect(refused.body).toContain("is not ready: starting (last exit: ended by SIGKILL). The request was not sent; it is safe to retry.");

  await gate.open();
  const answers = (await held).map((reply) => JSON.parse(reply.body) as { id: number; result: { content: { text: string }[] } });
  expect(answers).toHaveLength(5);
  for (const answer of answers) expect(answer.result.content[0]?.text).toBe(`text ${answer.id}`);
  const seen = await readSeen(client);
  expect(seen.filter((method) => method === "tools/call")).toHaveLength(5 + 1);
});

it("an initialize request is held and answered from the next handshake", async () => {
  await using gate = await Gate.create();
  await using sidecar = await startGated(gate, ["--max-held-requests", "1"]);
  await crashBehindGate(sidecar, gate);
  const newcomer = new McpClient(sidecar.url);
  const { refused, held } = await holdAll([() => newcomer.post(initializeRequest()), () => newcomer.post(initializeRequest())]);
  expect(readError(refused)).toEqual(
    errorReply(503, -32000, "UPSTREAM_NOT_READY", { id: 1, data: { sent: false, retrySafe: true, retryAfterSeconds: 1 } }),
  );
  expect(refused.headers["mcp-session-id"]).toBeUndefined();
  await gate.open();
  const [reply] = await held;
  expect(reply?.status).toBe(200);
  newcomer.sessionId = String(reply?.headers["mcp-session-id"]);
  expect(await newcomer.toolText("echo", { text: "in" })).toBe("in");
});

it("notifications above a quarter of MAX_HELD_REQUESTS are rejected at once", async () => {
  await using gate = await Gate.create();
  await using sidecar = await startGated(gate, ["--max-held-requests", "8"]);
  const client = await sidecar.client();
  await crashBehindGate(sidecar, gate);
  const notification = { jsonrpc: "2.0", method: "notifications/x-vendor" };
  const replies = await Promise.all([client.post(notification), client.post(notification), client.post(notification)]);
  expect(replies.filter((reply) => reply.status === 202)).toHaveLength(2);
  const refused = replies.filter((reply) => reply.status !== 202);
  expect(refused.map(readError)).toEqual([
    errorReply(503, -32000, "UPSTREAM_NOT_READY", { data: { sent: false, retrySafe: true, retryAfterSeconds: 1 } }),
  ]);
  await gate.open();
  await waitForGeneration(sidecar, 2);
  expect((await readSeen(client)).filter((method) => method === "notifications/x-vendor")).toHaveLength(2);
});

it("a request held for HOLD_TIMEOUT_MS is rejected with the time until the restart", async () => {
  await using sidecar = await HttpBench.start({ flags: [...NO_RESTART, "--hold-timeout-ms", "50"] });
  const client = await sidecar.client();
  await client.callTool("exit", { code: 3 });
  await sidecar.waitForLog("mcp server will be restarted");
  const reply = await client.post(toolCall("echo"));
  const retryAfterSeconds = Number(reply.headers["retry-after"]);
  expect(retryAfterSeconds).toBeGreaterThan(500);
  expect(retryAfterSeconds).toBeLessThanOrEqual(600);
  expect(readError(reply)).toEqual(
    errorReply(503, -32000, "UPSTREAM_NOT_READY", { id: 2, data: { sent: false, retrySafe: true, retryAfterSeconds } }),
  );
  expect(reply.body).toContain("The MCP server is not ready: backing-off (last exit: exited with code 3).");
});

describe("the time of a request", () => {
  const SHORT = timeoutFlags(600);

  it("the time runs from acceptance, even if the server does not read", async () => {
    await using sidecar = await HttpBench.start({ flags: timeoutFlags(600, ["stop_reading"]) });
    const client = await sidecar.client();
    await client.toolText("stop_reading");
    // The first one to arrive is being written into a full pipe, the others are not.
    const padding = "p".repeat(300_000);
    const replies = await Promise.all([1, 2, 3].map((id) => client.callTool("echo", { padding }, id)));
    expect(replies.map((reply) => reply.error?.code)).toEqual([-32001, -32001, -32001]);
    const unsent = replies.filter((reply) => reply.error?.data?.["sent"] === false);
    expect(unsent).toHaveLength(2);
    for (const reply of unsent) {
      expect(reply.error?.message).toBe(
        "The MCP server did not answer tools/call of echo within 0.6 s (CLAW_MCP_STDIO_REQUEST_TIMEOUT_MS). The request was not sent; it is safe to retry.",
      );
      expect(reply.error?.data).toEqual(errorData("REQUEST_TIMEOUT", { sent: false, retrySafe: true, timeoutMs: 600 }));
    }
  });

  it("a late response is dropped, counted and logged with its cause", async () => {
    await using sidecar = await HttpBench.start({ flags: SHORT });
    const client = await sidecar.client();
    await Promise.all([client.callTool("hang"), client.callTool("hang")]);
    const wireIds = await waitForHanging(client, 2);
    expect(await client.toolText("release")).toBe("released");
    const second = await sidecar.waitForLog("late answer dropped", (line) => line["count"] === 2);
    const first = await sidecar.waitForLog("late answer dropped", (line) => line["count"] === 1);
    expect([first["requestId"], second["requestId"]]).toEqual(wireIds.toReversed());
    expect([first["reason"], second["reason"]]).toEqual(["timeout", "timeout"]);
    expect(sidecar.logLines.filter((line) => line.msg === "answer dropped: no such request")).toEqual([]);
  });

  it("a request whose body took all the time is rejected without being sent", async () => {
    await using sidecar = await HttpBench.start({ flags: SHORT });
    const client = await sidecar.client();
    using connection = await RawConnection.open(sidecar.origin);
    const bytes = postBytes({ jsonrpc: "2.0", id: "late", method: "x-vendor/late" }, client.sessionId);
    await connection.write(getBytes("/livez") + bytes.slice(0, -5));
    expect((await connection.reply()).status).toBe(200);
    // Accepted after the one above, and so timed out after it.
    expect((await client.callTool("hang")).error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
    await connection.write(bytes.slice(-5));
    const reply = readError(await connection.reply());
    expect(reply).toMatchObject({
      status: 200,
      body: { id: "late", error: { data: errorData("REQUEST_TIMEOUT", { sent: false, retrySafe: true }) } },
    });
    expect(await readSeen(client)).not.toContain("x-vendor/late");
  });
});
