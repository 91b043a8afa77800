import { afterAll, describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorData, errorReply, readError } from "../support/error-reply.ts";
import { Gate } from "../support/fixture-server.ts";
import { type HttpReply, send } from "../support/http-client.ts";
import { LegacySseClient } from "../support/legacy-sse-client.ts";
import { McpClient } from "../support/mcp-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { StartOptions, RunningSidecar } from "../support/running-sidecar.ts";
import { isGroupAlive } from "../support/sidecar.ts";
import { TOKENS } from "../support/token-clients.ts";

const TOKEN = "s3cret-Token.0123456789";
const PING = { jsonrpc: "2.0", id: 7, method: "ping" };
const SAMPLING = { sampling: {} };
const LIST_CHANGED = { jsonrpc: "2.0", method: "notifications/tools/list_changed" };

function start({ flags = [], ...options }: StartOptions = {}): Promise<RunningSidecar> {
  return HttpBench.start({ ...options, flags: ["--legacy-sse", "on", ...flags] });
}

function initialize(capabilities: object = {}): object {
  return { jsonrpc: "2.0", id: "i", method: "initialize", params: { protocolVersion: "2024-11-05", capabilities } };
}

describe("a shared server", async () => {
  const sidecar = disposeAfterAll(await start());

  it("a stream first names a random relative URL for the client's messages", async () => {
    using client = await LegacySseClient.open(sidecar.origin);
    using other = await LegacySseClient.open(sidecar.origin);
    expect(client.stream.response.headers).toMatchObject({
      "content-type": "text/event-stream",
      "cache-control": "no-cache, no-transform",
      "x-accel-buffering": "no",
    });
    expect(client.events).toEqual([
      {
        event: "endpoint",
        data: expect.stringMatching(/^messages\?sessionId=[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[\da-f]{4}-[\da-f]{12}$/) as string,
      },
    ]);
    expect(other.url).not.toBe(client.url);
  });

  it.each(["/sse/", "/sse?x=1"])("%s opens a stream without an Accept header", async (path) => {
    using connection = await RawConnection.open(sidecar.origin);
    await connection.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    expect(await connection.reply()).toMatchObject({ status: 200, headers: { "content-type": "text/event-stream" } });
  });

  it("a message gets 202, and its response arrives on the stream without an event id", async () => {
    using client = await LegacySseClient.open(sidecar.origin);
    expect(await client.post(initialize())).toMatchObject({ status: 202, body: "" });
    expect(await client.waitForMessage(({ id }) => id === "i")).toMatchObject({ result: { protocolVersion: "2024-11-05" } });
    expect(await client.notify("notifications/initialized")).toMatchObject({ status: 202, body: "" });
    await client.post('{"jsonrpc":"2.0","id":1.0,"method":"ping"}');
    await client.waitForMessage(({ id }) => id === 1);
    expect(client.events.slice(2)).toEqual([{ event: "message", data: '{"jsonrpc":"2.0","id":1.0,"result":{}}' }]);
    expect(Object.keys(client.events[1] ?? {})).toEqual(["event", "data"]);
  });

  it("sessions of this transport and of the endpoint are not interchangeable", async () => {
    using client = await LegacySseClient.connect(sidecar.origin);
    const endpointClient = await sidecar.client();
    const stolen = await new McpClient(sidecar.url, { sessionId: new URL(client.url).searchParams.get("sessionId") ?? "" }).post(PING);
    client.url = `${sidecar.origin}/messages?sessionId=${endpointClient.sessionId}`;
    expect(readError(stolen)).toStrictEqual(errorReply(404, -32001, "SESSION_NOT_FOUND", { id: 7 }));
    expect(readError(await client.post(PING))).toStrictEqual(errorReply(404, -32001, "SESSION_NOT_FOUND", { id: 7, client: "sse" }));
    expect((await endpointClient.request("ping")).result).toEqual({});
  });
});

describe("a request that is rejected with an HTTP error", async () => {
  const sidecar = disposeAfterAll(await start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN }, flags: ["--max-body-bytes", "2048"] }));
  const client = await LegacySseClient.connect(sidecar.origin, {}, { Authorization: `Bearer ${TOKEN}` });
  afterAll(() => client.close());

  it.each([
    ["a body that is too large", " ".repeat(2049), errorReply(413, -32000, "BODY_TOO_LARGE", { data: { limitBytes: 2048, sent: false } })],
    ["a body that is not JSON", "{", errorReply(400, -32700, "PARSE_ERROR")],
    ["a body that is not JSON-RPC", '{"id":7}', errorReply(400, -32600, "INVALID_REQUEST", { id: 7 })],
    ["a batch", [PING], errorReply(400, -32600, "INVALID_REQUEST")],
  ])("%s is rejected as at the endpoint", async (_what, body, expected) => {
    expect(readError(await client.post(body))).toStrictEqual(expected);
  });

  it("a message without the id of an open stream is rejected", async () => {
    const post = (query: string): Promise<HttpReply> =>
      send(`${sidecar.origin}/messages${query}`, {
        body: JSON.stringify(PING),
        headers: { "Content-Type": "application/json", Authorization: `Bearer ${TOKEN}` },
      });
    expect(readError(await post(""))).toStrictEqual(errorReply(400, -32000, "SESSION_REQUIRED", { id: 7, client: "sse" }));
    for (const id of ["", "x", "__proto__", "00000000-0000-4000-8000-000000000000"]) {
      expect(readError(await post(`?sessionId=${id}`))).toStrictEqual(
        errorReply(404, -32001, "SESSION_NOT_FOUND", { id: 7, client: "sse" }),
      );
    }
  });

  it("messages before initialize, and a second initialize, are rejected", async () => {
    using fresh = await LegacySseClient.open(sidecar.origin, { Authorization: `Bearer ${TOKEN}` });
    expect(readError(await fresh.post(PING))).toStrictEqual(errorReply(400, -32000, "SESSION_REQUIRED", { id: 7, client: "sse" }));
    expect(readError(await fresh.post(LIST_CHANGED))).toStrictEqual(errorReply(400, -32000, "SESSION_REQUIRED", { client: "sse" }));
    await fresh.initialize();
    expect(readError(await fresh.post(initialize()))).toStrictEqual(errorReply(400, -32600, "INVALID_REQUEST", { id: "i" }));
    expect(await fresh.toolText("echo", { text: "still there" })).toBe("still there");
  });

  it("other methods get 405, so that Streamable HTTP clients fall back", async () => {
    const body = JSON.stringify(initialize());
    const headers = { "Content-Type": "application/json", Authorization: `Bearer ${TOKEN}` };
    const replies = await Promise.all([
      send(`${sidecar.origin}/sse`, { method: "POST", headers, body }),
      send(client.url, { method: "GET", headers }),
      send(client.url, { method: "DELETE", headers }),
    ]);
    for (const reply of replies) expect(readError(reply)).toStrictEqual(errorReply(405, -32000, "METHOD_NOT_ALLOWED"));
    expect(replies.map(({ headers: { allow } }) => allow)).toEqual(["GET, OPTIONS", "POST, OPTIONS", "POST, OPTIONS"]);
  });
});

it("pages of this machine may use the transport", async () => {
  await using sidecar = await start();
  const Origin = "http://localhost:5173";
  using client = await LegacySseClient.connect(sidecar.origin, {}, { Origin });
  expect(client.stream.response.headers["access-control-allow-origin"]).toBe(Origin);
  expect((await client.post(PING)).headers["access-control-allow-origin"]).toBe(Origin);
  const preflight = await send(client.url, { method: "OPTIONS", headers: { Origin, "Access-Control-Request-Method": "POST" } });
  expect(preflight).toMatchObject({ status: 204, headers: { "access-control-allow-origin": Origin } });
});

it("comments keep streams and their sessions alive", async () => {
  await using sidecar = await start({ flags: ["--keep-alive-ms", "50", "--session-idle-timeout-ms", "50"] });
  using client = await LegacySseClient.connect(sidecar.origin, SAMPLING);
  const comments = (): number => client.events.filter(({ comment }) => comment === "keep-alive").length;
  await client.waitFor(() => (comments() >= 5 ? true : undefined), "five comments");
  expect(await client.toolText("echo", { text: "still there" })).toBe("still there");
});

describe("a private server", () => {
  it("a private server is terminated with its stream", async () => {
    await using sidecar = await start();
    using client = await LegacySseClient.connect(sidecar.origin, SAMPLING);
    const { pid } = JSON.parse(await client.toolText("where")) as { pid: number };
    expect(isGroupAlive(pid)).toBe(true);
    client.close();
    await sidecar.waitForLog("mcp server ended", (line) => line["childPid"] === pid);
    expect(isGroupAlive(pid)).toBe(false);
  });

  it("a private server is terminated if its client leaves before it is ready", async () => {
    await using gate = await Gate.create();
    await using sidecar = await start({ mode: "gated", env: gate.env, untilReady: false });
    using client = await LegacySseClient.open(sidecar.origin);
    await client.post(initialize(SAMPLING));
    const shared = await sidecar.waitForLog("mcp server started");
    const own = await sidecar.waitForLog("mcp server started", (line) => line["childPid"] !== shared["childPid"]);
    client.close();
    await sidecar.waitForLog("mcp server ended", (line) => line["childPid"] === own["childPid"]);
    expect(isGroupAlive(Number(own["childPid"]))).toBe(false);
  });

  it("a client whose initialize request has failed can retry it", async () => {
    await using sidecar = await start({ mode: "refuse", untilReady: false, flags: ["--isolation", "session"] });
    using client = await LegacySseClient.open(sidecar.origin);
    for (const id of ["first", "second"]) {
      const { error } = await client.request("initialize", { protocolVersion: "2024-11-05", capabilities: {} }, id);
      expect(error).toEqual({ code: -32603, message: "no license" });
    }
  });

  it("a client above MAX_PRIVATE_SERVERS gets an error on the stream", async () => {
    await using sidecar = await start({ flags: ["--max-private-servers", "1"] });
    using client = await LegacySseClient.connect(sidecar.origin, SAMPLING);
    using other = await LegacySseClient.open(sidecar.origin);
    const { error } = await other.request("initialize", { protocolVersion: "2024-11-05", capabilities: SAMPLING });
    expect(error).toMatchObject({ code: -32000, data: errorData("TOO_MANY_SERVERS", { sent: false, retrySafe: true }) });
    expect(await client.toolText("echo", { text: "not disturbed" })).toBe("not disturbed");
  });
});

it("a stream without initialize ends after REQUEST_TIMEOUT_MS, and no other does", async () => {
  await using gate = await Gate.create();
  await using sidecar = await start({ mode: "gated", env: gate.env, untilReady: false, flags: ["--request-timeout-ms", "1000"] });
  using waiting = await LegacySseClient.open(sidecar.origin);
  await waiting.post(initialize());
  using unused = await LegacySseClient.open(sidecar.origin);
  expect(await unused.ended).toBe("complete");
  await gate.open();
  await waiting.waitForMessage(({ id }) => id === "i");
  using next = await LegacySseClient.open(sidecar.origin);
  expect(await next.ended).toBe("complete");
  expect(await waiting.toolText("echo", { text: "still there" })).toBe("still there");
});

it("streams above MAX_SESSIONS end if they are unused; those with a session stay", async () => {
  await using sidecar = await start({ flags: ["--max-sessions", "1"] });
  using unused = await LegacySseClient.open(sidecar.origin);
  using first = await LegacySseClient.connect(sidecar.origin);
  expect(await unused.ended).toBe("complete");
  using second = await LegacySseClient.open(sidecar.origin);
  const params = { protocolVersion: "2024-11-05", capabilities: {} };
  const { error } = await second.request("initialize", params);
  expect(error).toMatchObject({
    code: -32000,
    data: errorData("TOO_MANY_SESSIONS", { sent: false, retrySafe: true, retryAfterSeconds: 5 }),
  });
  expect(await first.toolText("echo", { text: "still there" })).toBe("still there");
  first[Symbol.dispose]();
  let isOpen = false;
  for (let id = 2; !isOpen; id++) isOpen = (await second.request("initialize", params, id)).error === undefined;
  expect(await second.toolText("echo", { text: "in its place" })).toBe("in its place");
});

it("a flood of unused streams ends its own, and none of another client", async () => {
  await using sidecar = await HttpBench.start({ hasTokens: true, flags: ["--legacy-sse", "on", "--max-sessions", "2"] });
  const open = (token: string): Promise<LegacySseClient> => LegacySseClient.open(sidecar.origin, { Authorization: `Bearer ${token}` });
  using other = await open(TOKENS[1]);
  using oldest = await open(TOKENS[0]);
  using newest = await open(TOKENS[0]);
  expect(await Promise.race([oldest.ended, other.ended.then(() => "the other client's")])).toBe("complete");
  for (const client of [other, newest]) await client.initialize();
  expect(await other.toolText("echo", { text: "still there" })).toBe("still there");
});

it("a client that does not read its responses is disconnected", async () => {
  await using sidecar = await start();
  using client = await LegacySseClient.connect(sidecar.origin);
  using other = await LegacySseClient.connect(sidecar.origin);
  client.stream.response.pause();
  const big = { ...PING, method: "tools/call", params: { name: "big", arguments: { length: 1024 * 1024 } } };
  let count = 0;
  while ((await client.post(big)).status === 202) {
    count++;
    // One response at a time: the limit is on responses that wait to be read.
    await other.request("ping");
  }
  expect(readError(await client.post(big))).toStrictEqual(errorReply(404, -32001, "SESSION_NOT_FOUND", { id: 7, client: "sse" }));
  // The limit is 16 MiB; the operating systems of both sides buffer the rest.
  expect(count).toBeGreaterThan(16);
  expect(count).toBeLessThan(48);
  client.stream.response.resume();
  expect(await client.ended).toBe("broken");
});
