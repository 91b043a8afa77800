import { describe, expect, it } from "vitest";
import { errorData, readError } from "../support/error-reply.ts";
import type { EventStream } from "../support/event-stream.ts";
import { readSeen, timeoutFlags, waitForHanging, waitForSeen } from "../support/in-flight.ts";
import { LaneClient } from "../support/lane-client.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { getBytes, postBytes } from "../support/mcp-request-bytes.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { HttpBench } from "../support/http-bench.ts";

const SHORT = timeoutFlags(600);

describe("a request's timeout", () => {
  it("the error comes with HTTP 200 and a text for the model", async () => {
    await using sidecar = await HttpBench.start({ flags: SHORT });
    const client = await sidecar.client();
    const reply = await client.post(`{"jsonrpc":"2.0","id":"my id","method":"tools/call","params":{"name":"hang","arguments":{}}}`);
    expect(readError(reply)).toEqual({
      status: 200,
      contentType: "application/json",
      body: {
        jsonrpc: "2.0",
        id: "my id",
        error: {
          code: -32001,
          message:
            "The MCP server did not answer tools/call of hang within 0.6 s (CLAW_MCP_STDIO_REQUEST_TIMEOUT_MS). The request was sent and may have taken effect; check before you repeat it.",
          data: errorData("REQUEST_TIMEOUT", { sent: true, retrySafe: false, timeoutMs: 600 }),
        },
      },
    });
  });

  it("the error of a read-only request says that it is safe to retry", async () => {
    await using sidecar = await HttpBench.start({ flags: SHORT });
    const client = await sidecar.client();
    await client.callTool("mute", { method: "tools/list" });
    const { status, error } = await client.request("tools/list");
    expect(status).toBe(200);
    expect(error).toEqual({
      code: -32001,
      message:
        "The MCP server did not answer tools/list within 0.6 s (CLAW_MCP_STDIO_REQUEST_TIMEOUT_MS). The request was sent, but only reads; it is safe to retry.",
      data: errorData("REQUEST_TIMEOUT", { sent: true, retrySafe: true, timeoutMs: 600 }),
    });
  });

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

  it("the request is cancelled at the server, by the server's id", async () => {
    await using sidecar = await HttpBench.start({ flags: SHORT });
    const client = await sidecar.client();
    await client.callTool("hang", {}, "my id");
    const [wireId] = await waitForHanging(client, 1);
    expect(await sidecar.waitForLog("request given up")).toMatchObject({
      level: "info",
      method: "tools/call",
      requestId: wireId,
      tool: "hang",
      reason: "timeout",
      setting: "REQUEST_TIMEOUT_MS",
      code: "REQUEST_TIMEOUT",
    });
    expect(await readSeen(client)).toContain(`notifications/cancelled ${wireId}`);
    const notifications = JSON.parse(await client.toolText("notifications")) as string[];
    expect(JSON.parse(notifications.at(-1) ?? "")).toEqual({
      jsonrpc: "2.0",
      method: "notifications/cancelled",
      params: { requestId: wireId, reason: "timeout" },
    });
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

  it("a late response never reaches another request with the same id", async () => {
    await using sidecar = await HttpBench.start({ flags: timeoutFlags(1000) });
    const client = await sidecar.client();
    await client.callTool("hang", {}, 2);
    const echoes = Array.from({ length: 20 }, (_, index) => client.toolText("echo", { text: `${index}` }));
    const released = client.toolText("release");
    const more = Array.from({ length: 20 }, (_, index) => client.toolText("echo", { text: `more ${index}` }));
    expect(await Promise.all([...echoes, ...more])).toEqual([
      ...Array.from({ length: 20 }, (_, index) => `${index}`),
      ...Array.from({ length: 20 }, (_, index) => `more ${index}`),
    ]);
    expect(await released).toBe("released");
    await sidecar.waitForLog("late answer dropped");
  });

  it("other requests of the session are unaffected", async () => {
    await using sidecar = await HttpBench.start({ flags: SHORT });
    const client = await sidecar.client();
    const hanging = client.callTool("hang");
    let answered = 0;
    const pulse = (async (): Promise<void> => {
      while (sidecar.logLines.every((line) => line.msg !== "request given up")) {
        expect(await client.toolText("echo", { text: "pulse" })).toBe("pulse");
        answered++;
      }
    })();
    expect((await hanging).error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
    await pulse;
    expect(answered).toBeGreaterThan(0);
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

/** Makes a call that shows progress every 20 ms, `steps` times, before its response. */
function slowCall(client: McpClient, steps: number, meta: object = { progressToken: "mine" }): Promise<EventStream> {
  return client.begin("slow_progress", { steps, intervalMs: 20 }, "slow", meta);
}

describe("a request's time limit", () => {
  it.concurrent("progress extends the limit, so that a response may come later", async () => {
    await using sidecar = await HttpBench.start({ flags: SHORT });
    const client = await sidecar.client();
    const startedAtMs = performance.now();
    using call = await slowCall(client, 100);
    expect(await call.toolText()).toBe("done");
    expect(performance.now() - startedAtMs).toBeGreaterThan(1800);
  });

  it.concurrent("the limit starts again with each progress, and the request times out without more", async () => {
    const timeoutMs = 1500;
    await using sidecar = await HttpBench.start({ flags: timeoutFlags(timeoutMs) });
    const client = await sidecar.client();
    const hanging = client.begin("hang", {}, 2, { progressToken: "mine" });
    const startedAtMs = performance.now();
    const [wireId] = await waitForHanging(client, 1);
    const line = JSON.stringify({ jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: wireId, progress: 1 } });
    let lastProgressAtMs: number;
    do {
      lastProgressAtMs = performance.now();
      await client.callTool("noise", { line });
    } while (lastProgressAtMs - startedAtMs < timeoutMs / 2);
    const answer = await (await hanging).answer();
    expect(performance.now() - lastProgressAtMs).toBeGreaterThanOrEqual(timeoutMs);
    expect(answer.error?.data).toMatchObject({ code: "REQUEST_TIMEOUT", sent: true, retrySafe: false });
    await waitForSeen(client, `notifications/cancelled ${wireId}`);
  });

  it.concurrent("the limit is ten times REQUEST_TIMEOUT_MS, however much progress there is", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--request-timeout-ms", "300"] });
    const client = await sidecar.client();
    const startedAtMs = performance.now();
    using call = await slowCall(client, 1_000_000);
    const { id, error } = await call.answer();
    expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(3000);
    expect(id).toBe("slow");
    expect(error).toEqual({
      code: -32001,
      message:
        "The MCP server did not answer tools/call of slow_progress within 3 s (CLAW_MCP_STDIO_REQUEST_TIMEOUT_MS). The request was sent and may have taken effect; check before you repeat it.",
      data: errorData("REQUEST_TIMEOUT", { sent: true, retrySafe: false, timeoutMs: 3000 }),
    });
    await sidecar.waitForLog("request given up", (line) => line["reason"] === "timeout");
  });

  it.each([
    ["that the client did not request", {}],
    ["of another call", { progressToken: "another" }],
  ])("the limit is not extended by progress %s", async (_what, meta) => {
    await using sidecar = await HttpBench.start({ flags: [...SHORT, "--drain-timeout-ms", "20"] });
    const client = await sidecar.client();
    const params = { name: "hang", arguments: {}, _meta: meta };
    const hanging = client.postForStream({ jsonrpc: "2.0", id: 2, method: "tools/call", params });
    const [wireId = 0] = await waitForHanging(client, 1);
    // The server's own id if there is no token; else the token as the client spelled it.
    const progressToken = "progressToken" in meta ? "another" : wireId;
    using other = await slowCall(client, 1_000_000, { progressToken });
    expect((await other.next()).params).toMatchObject({ progressToken });
    const answer = await (await hanging).answer();
    // With its own progress, the request would have ten times as long.
    expect(answer.error?.data).toMatchObject({ code: "REQUEST_TIMEOUT", timeoutMs: 600 });
  });

  it.concurrent("the limit is suspended during server requests, and starts again with the response", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--request-timeout-ms", "1000"] });
    const client = await LaneClient.connect(sidecar);
    const bystander = await sidecar.client();
    using call = await client.begin("ask", { method: "elicitation/create" });
    const asked = await call.next();
    // Other clients' calls time out one after another, and show that the limit has passed again.
    for (let times = 0; times < 2; times++) expect((await bystander.callTool("hang")).error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
    await client.answer(asked, { action: "accept" });
    expect(JSON.parse((await call.toolText()) ?? "")).toMatchObject({ result: { action: "accept" } });
  });

  it.concurrent("the limit is ten times REQUEST_TIMEOUT_MS even if the client never answers", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--request-timeout-ms", "2000"] });
    const client = await LaneClient.connect(sidecar);
    const startedAtMs = performance.now();
    using call = await client.begin("ask", { method: "elicitation/create" });
    await call.next();
    expect((await call.answer()).error?.data).toEqual(errorData("REQUEST_TIMEOUT", { sent: true, retrySafe: false, timeoutMs: 20_000 }));
    expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(20_000);
    expect(await client.toolText("echo", { text: "on" })).toBe("on");
  });
});
