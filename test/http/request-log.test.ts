import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { Gate, waitForHanging } from "../support/fixture-server.ts";
import { send } from "../support/http-client.ts";
import { LegacySseClient } from "../support/legacy-sse-client.ts";
import { JSON_HEADERS, McpClient, toolCall } from "../support/mcp-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { LogLine, RunningSidecar } from "../support/running-sidecar.ts";

const TOKENS = ["first-Token.0123456789", "second-Token.012345678"] as const;
const ALL = ["--request-log", "all"];
const ECHO_ERROR = { line: '{"jsonrpc":"2.0","id":$ID,"error":{"code":-1,"message":"SECRET-error"}}' };

function linesOf(sidecar: RunningSidecar): LogLine[] {
  return sidecar.logLines.filter(({ msg }) => msg.startsWith("request ") && msg !== "request given up");
}

function hashOf(sessionId: string): string {
  return createHash("sha256").update(sessionId).digest("hex").slice(0, 12);
}

function rejection(sidecar: RunningSidecar, ending: string): Promise<LogLine> {
  return sidecar.waitForLog("request rejected", (line) => line["ending"] === ending);
}

function ended(sidecar: RunningSidecar, ending: string, tool?: string): Promise<LogLine> {
  return sidecar.waitForLog("request ended", (line) => line["ending"] === ending && (tool === undefined || line["tool"] === tool));
}

describe("REQUEST_LOG", async () => {
  const all = disposeAfterAll(await HttpBench.start({ flags: [...ALL, "--legacy-sse=on"] }));

  it("a successful call has all fields with all, and its initialize the same session", async () => {
    await using sidecar = await HttpBench.start({ flags: ALL });
    const client = await sidecar.client();
    const message = toolCall("echo", { text: "hello" });
    const { body } = await client.post(message);
    const session = hashOf(client.sessionId);
    expect(await ended(sidecar, "results", "echo")).toMatchObject({
      level: "info",
      method: "tools/call",
      session,
      principal: "127.0.0.1",
      revision: "2025-11-25",
      httpStatus: 200,
      queueMs: expect.any(Number) as number,
      serverMs: expect.any(Number) as number,
      requestBytes: JSON.stringify(message).length,
      responseBytes: body.length,
    });
    expect(await sidecar.waitForLog("request ended", (line) => line["method"] === "initialize")).toMatchObject({
      session,
      httpStatus: 200,
    });
    await sidecar.stop();
    // The notification of the client is not a request.
    expect(linesOf(sidecar)).toHaveLength(2);
  });

  it("by default, neither successful requests nor health routes are logged", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    await client.toolText("echo", { text: "hello" });
    for (const path of ["/livez", "/readyz", "/healthz", "/status"]) await send(`${sidecar.origin}${path}`, { method: "GET" });
    await client.end();
    await sidecar.stop();
    expect(linesOf(sidecar)).toEqual([]);
  });

  it("with off, no request is logged", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--request-log", "off"] });
    const client = await sidecar.client();
    await client.callTool("raw_line", ECHO_ERROR);
    expect((await client.post("{")).status).toBe(400);
    await sidecar.stop();
    expect(linesOf(sidecar)).toEqual([]);
  });

  it("a timeout is logged as a warning, with the time in the server", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--tool-timeouts-ms", "hang=100"] });
    await (await sidecar.client()).callTool("hang");
    const line = await ended(sidecar, "REQUEST_TIMEOUT");
    expect(line).toMatchObject({ level: "warn", tool: "hang", httpStatus: 200 });
    expect(Number(line["serverMs"])).toBeGreaterThan(50);
  });

  it("requests that their clients cancel or leave are logged with all", async () => {
    const client = await all.client();
    const dismissed = client.callTool("hang", {}, 7).catch(() => undefined);
    await waitForHanging(client, 1);
    await client.notify("notifications/cancelled", { requestId: 7 });
    await dismissed;
    expect(await ended(all, "dismissed")).toMatchObject({ tool: "hang", httpStatus: 202 });
    const leaving = new AbortController();
    const left = all.modernClient().callTool("hang", {}, { signal: leaving.signal });
    await waitForHanging(client, 1);
    leaving.abort();
    await expect(left).rejects.toMatchObject({ name: "AbortError" });
    expect(await ended(all, "unread")).toMatchObject({ tool: "hang", revision: "2026-07-28" });
  });

  it("a request without a session has its revision, and no session", async () => {
    await all.modernClient().toolText("echo", { text: "hello" });
    const line = await all.waitForLog("request ended", ({ tool, revision }) => tool === "echo" && revision === "2026-07-28");
    expect(line).toMatchObject({ ending: "results", httpStatus: 200, principal: "127.0.0.1" });
    expect(line).not.toHaveProperty("session");
    expect(Number(line["serverMs"])).toBeGreaterThan(0);
  });

  it("a request over HTTP+SSE has the status of its POST", async () => {
    using client = await LegacySseClient.connect(all.origin);
    await client.toolText("echo", { text: "hello" });
    const { session } = await all.waitForLog("request ended", (line) => line["method"] === "initialize" && line["httpStatus"] === 202);
    const line = await all.waitForLog("request ended", (each) => each["tool"] === "echo" && each["session"] === session);
    expect(line).toMatchObject({ ending: "results", revision: "2024-11-05", httpStatus: 202 });
  });

  it("each request of a batch has its line", async () => {
    await using sidecar = await HttpBench.start({ flags: ALL });
    const client = await sidecar.client({ protocolVersion: "2025-03-26" });
    const notification = { jsonrpc: "2.0", method: "notifications/x" };
    await client.post([toolCall("echo", { text: "x" }, 1), toolCall("raw_line", ECHO_ERROR), notification]);
    await ended(sidecar, "results", "echo");
    await ended(sidecar, "errors", "raw_line");
    await sidecar.stop();
    expect(linesOf(sidecar)).toHaveLength(3);
  });

  it("principals are the tokens by their number", async () => {
    await using sidecar = await HttpBench.start({ flags: ALL, env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKENS[0] } });
    await sidecar.client({ token: TOKENS[0] });
    expect(await ended(sidecar, "results")).toMatchObject({ principal: "token-1" });
    await send(sidecar.url, { headers: { ...JSON_HEADERS, Authorization: `Bearer ${TOKENS[0]}` }, body: "{" });
    expect(await rejection(sidecar, "PARSE_ERROR")).toMatchObject({ principal: "token-1" });
  });
});

describe("rejected requests in the log", async () => {
  const guarded = disposeAfterAll(
    await HttpBench.start({ flags: ["--max-body-bytes", "1000"], env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKENS[0] } }),
  );

  it.each<[ending: string, httpStatus: number, call: Parameters<typeof send>[1], fields: object]>([
    ["UNAUTHORIZED", 401, { headers: { ...JSON_HEADERS, Authorization: "" } }, { reason: expect.stringContaining("Bearer") as string }],
    ["ORIGIN_NOT_ALLOWED", 403, { headers: { Origin: "https://a.example" } }, { reason: expect.stringContaining("a.example") as string }],
    ["SESSION_NOT_FOUND", 404, { headers: { ...JSON_HEADERS, "Mcp-Session-Id": "gone" } }, { session: hashOf("gone"), requestBytes: 40 }],
    ["METHOD_NOT_ALLOWED", 405, { method: "PUT" }, { reason: expect.stringContaining("PUT") as string }],
    ["NOT_ACCEPTABLE", 406, { headers: { ...JSON_HEADERS, Accept: "text/html" } }, {}],
    ["BODY_TOO_LARGE", 413, { headers: JSON_HEADERS, body: "x".repeat(1001) }, { reason: expect.stringContaining("1000") as string }],
    ["UNSUPPORTED_MEDIA_TYPE", 415, { headers: { "Content-Type": "text/plain" } }, {}],
  ])("%s is logged with the status %i", async (ending, httpStatus, { headers, ...call } = {}, fields) => {
    const body = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
    const { status } = await send(guarded.url, { body, ...call, headers: { Authorization: `Bearer ${TOKENS[0]}`, ...headers } });
    expect(status).toBe(httpStatus);
    const principal = ending === "UNAUTHORIZED" ? "127.0.0.1" : "token-1";
    expect(await rejection(guarded, ending)).toMatchObject({ level: "info", httpStatus, principal, ...fields });
  });

  it("a limit of a client is logged with method, tool and session", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--session-calls-per-minute", "1"] });
    const client = await sidecar.client();
    await client.toolText("echo", { text: "x" });
    expect((await client.callTool("echo")).status).toBe(429);
    const fields = { level: "info", method: "tools/call", tool: "echo", session: hashOf(client.sessionId), httpStatus: 429 };
    expect(await rejection(sidecar, "RATE_LIMITED")).toMatchObject(fields);
  });

  it("a request to a server that is not ready is logged as a warning", async () => {
    await using gate = await Gate.create();
    await using sidecar = await HttpBench.start({ mode: "gated", env: gate.env, flags: ["--hold-timeout-ms", "50"], untilReady: false });
    await expect(sidecar.client()).rejects.toThrow("503");
    const line = await rejection(sidecar, "UPSTREAM_NOT_READY");
    expect(line).toMatchObject({ level: "warn", method: "initialize", httpStatus: 503 });
    expect(Number(line["queueMs"])).toBeGreaterThan(40);
    expect(line).not.toHaveProperty("serverMs");
  });

  it("data that is not HTTP is logged with its address", async () => {
    await using sidecar = await HttpBench.start();
    using connection = await RawConnection.open(sidecar.origin);
    await connection.write("NOT HTTP\r\n\r\n");
    await connection.reply();
    expect(await rejection(sidecar, "INVALID_REQUEST")).toMatchObject({ httpStatus: 400, principal: "127.0.0.1" });
  });
});

describe("the log of requests and secrets", () => {
  it("no token, session id, argument, result, error, path or query is logged", async () => {
    await using sidecar = await HttpBench.start({ flags: [...ALL, "--log-level", "debug"], env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKENS[0] } });
    const [token] = TOKENS;
    const client = await sidecar.client({ token });
    await client.toolText("echo", { text: "SECRET-argument" });
    await client.callTool("raw_line", ECHO_ERROR);
    await client.request("unknown/method", { uri: "file:///SECRET-uri" }, "SECRET-id");
    await client.request("resources/read", { uri: "file:///SECRET-uri" });
    await client.post('{"jsonrpc":"2.0","id":"SECRET-id","SECRET-member":1}');
    await new McpClient(sidecar.url, { token: "SECRET-token" }).post("{}");
    await new McpClient(sidecar.url, { token, sessionId: "SECRET-session" }).request("ping");
    await send(`${sidecar.origin}/SECRET-path?key=SECRET-query`, { method: "GET" });
    await send(`${sidecar.url}?key=SECRET-query`, { method: "PUT", headers: { Authorization: `Bearer ${token}` } });
    await sidecar.modernClient({ token }).callTool("echo", { text: "SECRET-argument" });
    await sidecar.stop();
    expect(linesOf(sidecar).length).toBeGreaterThanOrEqual(11);
    expect(sidecar.transcript()).not.toContain("SECRET");
    expect(sidecar.transcript()).not.toContain(token);
    expect(sidecar.transcript()).not.toContain(client.sessionId);
  });

  it("a long name of a method or tool is shortened", async () => {
    await using sidecar = await HttpBench.start({ flags: ALL });
    const client = await sidecar.client();
    await client.callTool("t".repeat(900));
    const { tool } = await sidecar.waitForLog("request ended", (line) => line["method"] === "tools/call");
    expect(String(tool)).toBe(`${"t".repeat(100)}…`);
  });
});

describe("a flood of rejected requests", () => {
  it("failures are logged meanwhile", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--tool-timeouts-ms", "hang=300"] });
    const client = await sidecar.client();
    await Promise.all(Array.from({ length: 200 }, () => send(sidecar.url, { headers: JSON_HEADERS, body: "{}" })));
    await client.callTool("hang");
    await ended(sidecar, "REQUEST_TIMEOUT");
    await sidecar.stop();
    expect(sidecar.logLines.filter(({ msg }) => msg === "request rejected").length).toBeLessThan(200);
  });
});

it("only the level debug shows dropped notifications", async () => {
  const dropped = "server notification dropped";
  await using debug = await HttpBench.start({ flags: ["--log-level", "debug"] });
  await (await debug.client()).toolText("progress");
  expect(await debug.waitForLog(dropped)).toMatchObject({ level: "debug", method: "notifications/progress" });
  await using info = await HttpBench.start();
  const client = await info.client();
  await client.toolText("progress");
  await client.toolText("stderr", { text: "afterwards" });
  await info.waitForLog("afterwards");
  expect(info.logLines.map(({ msg }) => msg)).not.toContain(dropped);
});
