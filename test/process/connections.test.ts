import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { treeCpuMs } from "../../bench/proc.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { type HttpReply, send } from "../support/http-client.ts";
import { waitForHanging } from "../support/fixture-server.ts";
import { RawConnection, getBytes, headBytes, postBytes } from "../support/raw-connection.ts";
import { openUnread } from "../support/open-sockets.ts";
import { Sidecar } from "../support/sidecar.ts";
import { readStatus } from "../support/status.ts";
import { toolCall } from "../support/mcp-client.ts";

const TOKEN = "token-of-the-connections-test";
const AUTHORIZED = { Authorization: `Bearer ${TOKEN}` };
const WITH_TOKEN = { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN };
/** Requests of a connection that may be unanswered. */
const LIMIT = 16;
const TOO_MANY = errorReply(429, -32000, "SESSION_OVERLOADED", { data: { retryAfterSeconds: 1 } });
/** As in src/http/response.ts. */
const LINGER_MS = 2000;
const BURST_BYTES = 64 * 1024;
const MAX_EXIT_CPU_MS = 5000;

/** Returns as many whole requests as fit into what the sidecar reads at once. */
function burst(request: string): string {
  return request.repeat(BURST_BYTES / request.length);
}

function upToLimit(status: number): number[] {
  return [...Array.from({ length: LIMIT }, () => status), 429];
}

function get(origin: string, path = "/livez", headers = {}): Promise<HttpReply> {
  return send(`${origin}${path}`, { method: "GET", headers });
}

/** Sends a burst. @returns the statuses of all responses that arrive up to the end of the connection. */
async function burstStatuses(origin: string, request: string): Promise<number[]> {
  using connection = await RawConnection.open(origin);
  await connection.write(burst(request)).catch(() => undefined);
  const { text } = await connection.rest();
  return [...text.matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) => Number(status));
}

async function readCounts(origin: string): Promise<Readonly<Record<string, number>>> {
  return (await readStatus({ origin }, AUTHORIZED)).counters.http.responses;
}

function sum(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}

/** Sends a burst, and expects these responses. Those that the client has not read when the connection is reset count at the sidecar only. */
async function expectResponses(origin: string, adminOrigin: string, request: string, expected: readonly number[]): Promise<void> {
  const last = String(expected.at(-1));
  const before = await readCounts(adminOrigin);
  const statuses = await burstStatuses(origin, request);
  expect(statuses).toEqual(expected.slice(0, statuses.length));
  for (let polls = 1; ; polls++) {
    const after = await readCounts(adminOrigin);
    // The requests that read the counts are counted themselves.
    expect(sum(after) - sum(before) - polls).toBeLessThanOrEqual(LIMIT + 1);
    if (after[last] !== before[last]) break;
  }
}

describe("requests that a client sends ahead of responses", async () => {
  const sidecar = disposeAfterAll(await Sidecar.start({ env: WITH_TOKEN, flags: ["--admin-addr", "127.0.0.1:0"] }));
  const adminOrigin = `http://${String(sidecar.logLines.find(({ msg }) => msg === "listening for operators")?.["address"])}`;
  const open = disposeAfterAll(await Sidecar.start({ flags: ["--keep-alive-ms", "600000"] }));

  it("sixteen requests at once are answered in order, and the connection stays usable", async () => {
    const { sessionId } = await open.client();
    using connection = await RawConnection.open(open.origin);
    const ids = Array.from({ length: LIMIT }, (_, index) => index + 100);
    for (let round = 0; round < 2; round++) {
      await connection.write(ids.map((id) => postBytes({ jsonrpc: "2.0", id, method: "ping" }, sessionId)).join(""));
      for (const id of ids) expect((await connection.reply()).body).toBe(`{"jsonrpc":"2.0","id":${id},"result":{}}`);
    }
  });

  it("the seventeenth, with a body that does not arrive, lets those before it end", async () => {
    const client = await open.client();
    using connection = await RawConnection.open(open.origin);
    const call = toolCall("hang", {}, 1);
    await connection.write(postBytes(call, client.sessionId));
    await waitForHanging(client, 1);
    await connection.write(getBytes("/livez").repeat(LIMIT - 1) + headBytes("POST /mcp", { "Content-Length": "100" }));
    // By then, the client would be too late if the response was sent.
    await delay(LINGER_MS + 500);
    await client.toolText("release");
    expect((await connection.reply()).body).toContain("released");
    for (let count = 1; count < LIMIT; count++) expect((await connection.reply()).status).toBe(200);
    expect(readError(await connection.reply())).toStrictEqual(TOO_MANY);
  });

  it("a client that leaves after the seventeenth is noticed", async () => {
    const client = await open.client();
    using connection = await RawConnection.open(open.origin);
    const call = toolCall("hang", {}, 1);
    await connection.write(postBytes(call, client.sessionId) + getBytes("/livez").repeat(LIMIT + 10));
    await waitForHanging(client, 1);
    connection[Symbol.dispose]();
    expect(await open.waitForLog("request given up")).toMatchObject({ reason: "client disconnected" });
  });

  it("a body in tiny chunks that nobody reads does not spoil the next requests", async () => {
    const { sessionId } = await open.client();
    using connection = await RawConnection.open(open.origin);
    const unread = headBytes("POST /livez", { "Transfer-Encoding": "chunked" }) + "1\r\n1\r\n".repeat(5000);
    const ping = postBytes({ jsonrpc: "2.0", id: 1, method: "ping" }, sessionId);
    for (let round = 0; round < 2; round++) {
      // The first body ends together with the next request, the second one later.
      await connection.write(unread + "0\r\n\r\n" + ping + unread);
      expect((await connection.reply()).status).toBe(405);
      expect((await connection.reply()).body).toBe('{"jsonrpc":"2.0","id":1,"result":{}}');
      expect((await connection.reply()).status).toBe(405);
      await connection.write("0\r\n\r\n" + ping);
      expect((await connection.reply()).body).toBe('{"jsonrpc":"2.0","id":1,"result":{}}');
    }
    // Node gives its parser to the next connection.
    await connection.write(unread);
    connection[Symbol.dispose]();
    using next = await RawConnection.open(open.origin);
    await next.write(ping);
    expect((await next.reply()).body).toBe('{"jsonrpc":"2.0","id":1,"result":{}}');
  });

  it.each([
    ["without a token", getBytes("/mcp"), 401],
    ["with a wrong token", getBytes("/mcp", { Authorization: "Bearer wrong" }), 401],
    ["with a token and without a session", getBytes("/mcp", { ...AUTHORIZED, Accept: "text/event-stream" }), 405],
    ["of DELETE", headBytes("DELETE /mcp", AUTHORIZED), 400],
    ["of OPTIONS", headBytes("OPTIONS /mcp"), 204],
    ["of POST with a body", postBytes({ jsonrpc: "2.0", id: 1, method: "ping" }), 401],
    ["of POST with chunks", headBytes("POST /mcp", { "Transfer-Encoding": "chunked" }) + "1\r\n1\r\n0\r\n\r\n", 401],
    ["of POST that answers itself", headBytes("POST /livez", { "Content-Length": "1" }) + "1", 405],
    ["with an unknown expectation", getBytes("/livez", { Expect: "tea" }), 200],
    ["without Host", "GET /mcp HTTP/1.1\r\n\r\n", 400],
    ["to an unknown path", getBytes("/unknown"), 404],
    ["to /livez", getBytes("/livez"), 200],
    ["to /readyz", getBytes("/readyz"), 200],
  ])("of a burst %s, seventeen requests are answered, and the sidecar stays usable", async (_what, request, status) => {
    // The response to a request without Host closes its connection.
    const isLast = !request.includes("Host");
    await expectResponses(sidecar.origin, adminOrigin, request, isLast ? [status] : upToLimit(status));
    for (const origin of [sidecar.origin, adminOrigin]) expect((await get(origin)).status).toBe(200);
    expect((await get(adminOrigin, "/metrics", AUTHORIZED)).status).toBe(200);
  });

  it.each([
    ["/metrics", 401, {}],
    ["/metrics", 200, AUTHORIZED],
    ["/status", 200, AUTHORIZED],
  ])("the address for operators has the same limit: %s with %i", async (path, status, headers) => {
    await expectResponses(adminOrigin, adminOrigin, getBytes(path, headers), upToLimit(status));
    for (const origin of [sidecar.origin, adminOrigin]) expect((await get(origin)).status).toBe(200);
  });
});

/**
 * Sends SIGTERM. Judges by the CPU time until the exit, of which other programs use up nothing: some 0.5 s. Without a limit for requests
 * that are sent ahead, it is ten times as much, and has no end while clients go on sending.
 */
async function expectExit(sidecar: Sidecar): Promise<void> {
  const pid = Number(sidecar.process.pid);
  const startMs = treeCpuMs(pid);
  sidecar.process.kill("SIGTERM");
  while (sidecar.process.exitCode === null && sidecar.process.signalCode === null) {
    expect(treeCpuMs(pid) - startMs).toBeLessThan(MAX_EXIT_CPU_MS);
    await delay(10);
  }
  expect(await sidecar.exited).toEqual({ code: 0, signal: null });
}

describe("300 bursts of which no response is read", () => {
  it("few of the requests are handled, others are served, and SIGTERM is obeyed", async () => {
    await using sidecar = await Sidecar.start({ env: WITH_TOKEN });
    const client = await sidecar.client({ token: TOKEN });
    const before = sum(await readCounts(sidecar.origin));
    const sockets = await Promise.all(Array.from({ length: 300 }, () => openUnread(sidecar.origin, burst(getBytes("/mcp")))));
    expect((await get(sidecar.origin)).status).toBe(200);
    expect((await client.request("ping")).result).toEqual({});
    expect(sum(await readCounts(sidecar.origin)) - before).toBeLessThanOrEqual(300 * (LIMIT + 1) + 10);
    await expectExit(sidecar);
    for (const socket of sockets) socket.destroy();
  });

  it("SIGTERM is obeyed while the clients open new connections and go on sending", async () => {
    await using sidecar = await Sidecar.start({ env: WITH_TOKEN });
    const over = new AbortController();
    const sendBurst = () => burstStatuses(sidecar.origin, getBytes("/mcp"));
    const keepSending = async (): Promise<void> => {
      while (!over.signal.aborted) await sendBurst().catch(() => undefined);
    };
    await Promise.all(Array.from({ length: 300 }, sendBurst));
    const sending = Array.from({ length: 300 }, keepSending);
    for (let round = 0; round < 5; round++) expect((await get(sidecar.origin)).status).toBe(200);
    await expectExit(sidecar);
    over.abort();
    await Promise.all(sending);
  });
});
