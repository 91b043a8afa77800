import { expect } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { type HttpReply, send } from "../support/http-client.ts";
import { readSeen } from "../support/fixture-server.ts";
import { JSON_HEADERS, McpClient } from "../support/mcp-client.ts";
import { RawConnection, getBytes, headBytes, postBytes } from "../support/raw-connection.ts";
import { Sidecar } from "../support/sidecar.ts";
import { proves } from "./proves.ts";

const MAX_BODY_BYTES = 200_000;
/** That are read without a session. */
const UNASKED_BYTES = 64 * 1024;
const MAX_CONNECTION_REQUESTS = 16;
const PING = { jsonrpc: "2.0", id: 7, method: "ping" };
const PONG = { status: 200, contentType: "application/json", body: { jsonrpc: "2.0", id: 7, result: {} } };
const ORIGIN_NOT_ALLOWED = errorReply(403, -32000, "ORIGIN_NOT_ALLOWED");
const HOST_NOT_ALLOWED = errorReply(403, -32000, "HOST_NOT_ALLOWED");

const sidecar = disposeAfterAll(await Sidecar.start({ flags: ["--max-body-bytes", String(MAX_BODY_BYTES)] }));
const client = await sidecar.client();

function get(path: string, headers: Readonly<Record<string, string>> = {}): Promise<HttpReply> {
  return send(`${sidecar.origin}${path}`, { method: "GET", headers });
}

/** Sends the head of a request with this declared size, and the beginning of its body. */
async function declare(bytes: number, headers: Readonly<Record<string, string>> = {}, beginning = ""): Promise<HttpReply> {
  using connection = await RawConnection.open(sidecar.origin);
  await connection.write(headBytes("POST /mcp", { ...JSON_HEADERS, ...headers, "Content-Length": String(bytes) }) + beginning);
  return await connection.reply();
}

proves("bodies and headers have limits", async () => {
  const session = { "Mcp-Session-Id": client.sessionId };
  expect(readError(await declare(MAX_BODY_BYTES + 1, session))).toStrictEqual(
    errorReply(413, -32000, "BODY_TOO_LARGE", { data: { limitBytes: MAX_BODY_BYTES } }),
  );
  const long = { text: "x".repeat(MAX_BODY_BYTES - 1000) };
  expect(await client.toolText("echo", long)).toBe(long.text);
  expect(readError(await declare(MAX_BODY_BYTES, {}, " ".repeat(UNASKED_BYTES + 1)))).toStrictEqual(
    errorReply(400, -32000, "SESSION_REQUIRED"),
  );
  const longHeader = await send(sidecar.url, { headers: { ...JSON_HEADERS, "X-Long": "x".repeat(17 * 1024) }, body: "{}" });
  expect([readError(longHeader), longHeader.headers["connection"]]).toEqual([errorReply(431, -32600, "INVALID_REQUEST"), "close"]);
  expect(readError(await client.post(PING))).toStrictEqual(PONG);
});

proves("ambiguous messages are rejected", async () => {
  for (const body of [
    '{"jsonrpc":"2.0","id":7,"method":"ping","method":"x-test/ambiguous"}',
    String.raw`{"jsonrpc":"2.0","id":7,"method":"ping","m\u0065thod":"x-test/ambiguous"}`,
    '{"jsonrpc":"2.0","id":7,"method":"ping","Method":"x-test/ambiguous"}',
  ]) {
    expect(readError(await client.post(body))).toMatchObject({ status: 400, body: { error: { data: { code: "INVALID_REQUEST" } } } });
  }
  expect(await readSeen(client)).not.toContain("x-test/ambiguous");
});

proves("forbidden messages do not reach the server", async () => {
  for (const members of [
    { params: [] },
    { params: null },
    { foreign: 1 },
    { params: { _meta: "x" } },
    { params: { _meta: { progressToken: {} } } },
  ]) {
    const { status, headers } = await client.post({ jsonrpc: "2.0", id: 7, method: "x-test/forbidden", ...members });
    expect([members, status, headers["content-type"]]).toEqual([members, 400, "application/json"]);
  }
  expect(await readSeen(client)).not.toContain("x-test/forbidden");
});

proves("a connection has at most 16 requests", async () => {
  using connection = await RawConnection.open(sidecar.origin);
  await connection.write(postBytes(PING, client.sessionId) + getBytes("/livez").repeat(100));
  expect(readError(await connection.reply())).toStrictEqual(PONG);
  for (let count = 1; count < MAX_CONNECTION_REQUESTS; count++) expect((await connection.reply()).status).toBe(200);
  const reply = await connection.reply();
  expect(readError(reply)).toStrictEqual(errorReply(429, -32000, "SESSION_OVERLOADED", { data: { retryAfterSeconds: 1 } }));
  expect(await connection.rest()).toEqual({ text: "", end: "closed" });
});

proves("pages of other origins are rejected", async () => {
  for (const Origin of ["https://evil.com", "http://localhost.evil.com", "null"]) {
    const reply = await client.post({ ...PING, method: "x-test/foreign" }, { headers: { Origin } });
    expect([Origin, readError(reply)]).toEqual([Origin, ORIGIN_NOT_ALLOWED]);
    expect(reply.headers).not.toHaveProperty("access-control-allow-origin");
    // No byte of the body is needed.
    expect(readError(await declare(100, { Origin, "Mcp-Session-Id": client.sessionId }))).toStrictEqual(ORIGIN_NOT_ALLOWED);
  }
  expect(await readSeen(client)).not.toContain("x-test/foreign");
  const local = await client.post(PING, { headers: { Origin: "http://localhost:5173" } });
  expect([readError(local), local.headers["access-control-allow-origin"]]).toEqual([PONG, "http://localhost:5173"]);
});

proves("DNS rebinding is rejected", async () => {
  const Host = `rebound.evil.com:${new URL(sidecar.origin).port}`;
  expect(readError(await client.post(PING, { headers: { Host } }))).toStrictEqual(HOST_NOT_ALLOWED);
  for (const path of ["/mcp", "/status", "/metrics"]) expect(readError(await get(path, { Host }))).toStrictEqual(HOST_NOT_ALLOWED);
  expect(JSON.parse((await get("/readyz", { Host })).body)).toStrictEqual({ status: "ready", state: "ready" });
  expect(JSON.parse((await get("/readyz")).body)).toHaveProperty("lastExit");
});

proves("HTTP+SSE is off by default", async () => {
  const { status, body } = await get("/sse", { Accept: "text/event-stream" });
  expect([status, body.includes("--legacy-sse")]).toEqual([404, true]);
  expect((await send(`${sidecar.origin}/messages?sessionId=x`, { headers: JSON_HEADERS, body: JSON.stringify(PING) })).status).toBe(404);
  expect((await new McpClient(sidecar.url).open()).sessionId).not.toBe("");
});
