import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { type IncomingMessage, request as httpRequest } from "node:http";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { crash } from "../support/crash.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { Gate } from "../support/gate.ts";
import { LaneClient } from "../support/lane-client.ts";
import { exitAndLogEnd } from "../support/log-end.ts";
import { JSON_HEADERS, McpClient } from "../support/mcp-client.ts";
import { getBytes, postBytes } from "../support/mcp-request-bytes.ts";
import { openUnread } from "../support/open-sockets.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { readReadiness } from "../support/readiness.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { isGroupAlive } from "../support/sidecar.ts";
import { readStatus } from "../support/status.ts";
import { TempDir } from "../support/temp-dir.ts";

/** The drain ends when its requests have, however busy the machine is. */
const LONG_DRAIN = ["--drain-timeout-ms", "600000"];
const SHORT_DRAIN = ["--drain-timeout-ms", "20"];
const NO_RESTART = ["--restart-backoff-ms", "600000", "--restart-max-ms", "600000"];
const INITIALIZE = { jsonrpc: "2.0", id: "i", method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {} } };

/** The expected reply; 200 if the request was sent, so that no intermediary retries it for its HTTP status. */
function shuttingDown(id: string | number, sent: boolean, retrySafe: boolean): object {
  return sent
    ? errorReply(200, -32000, "SHUTTING_DOWN", { id, data: { sent, retrySafe } })
    : errorReply(503, -32000, "SHUTTING_DOWN", { id, data: { sent, retrySafe, retryAfterSeconds: 1 } });
}

function waitForFile(path: string, id: string | number): object {
  return { jsonrpc: "2.0", id, method: "tools/call", params: { name: "wait_for_file", arguments: { path } } };
}

/** Opens a connection that is not idle: the sidecar has already read the first bytes of the request. */
async function openHalfSent(
  sidecar: RunningSidecar,
  bytes: string,
): Promise<{ readonly connection: RawConnection; readonly rest: string }> {
  const connection = await RawConnection.open(sidecar.origin);
  await connection.write(getBytes("/livez") + bytes.slice(0, 10));
  expect((await connection.reply()).status).toBe(200);
  return { connection, rest: bytes.slice(10) };
}

/** Sends SIGTERM; returns when the drain has begun. */
async function beginDrain(sidecar: RunningSidecar): Promise<void> {
  sidecar.kill("SIGTERM");
  await sidecar.waitForLog("stopping");
}

describe("a drain", () => {
  it("requests in flight finish, new ones are rejected, and the exit code is 0", async () => {
    await using dir = await TempDir.create();
    const path = dir.file("go");
    await using sidecar = await HttpBench.start({ flags: LONG_DRAIN });
    const { childPid } = sidecar;
    const client = await sidecar.client();
    const call = { jsonrpc: "2.0", id: "new", method: "tools/call", params: { name: "echo", arguments: {} } };
    const halfSent = await Promise.all(
      [postBytes(call, client.sessionId), postBytes(INITIALIZE), getBytes("/readyz"), getBytes("/livez")].map((bytes) =>
        openHalfSent(sidecar, bytes),
      ),
    );
    const inFlight = client.post(waitForFile(path, "old"));
    await sidecar.waitForLog(`waiting for ${path}`);

    await beginDrain(sidecar);
    const [request, initialize, readiness, liveness] = await Promise.all(
      halfSent.map(async ({ connection, rest }) => {
        using open = connection;
        await open.write(rest);
        return await open.reply();
      }),
    );
    expect(request && readError(request)).toStrictEqual(shuttingDown("new", false, true));
    expect(request?.headers["retry-after"]).toBe("1");
    expect(initialize && readError(initialize)).toStrictEqual(shuttingDown("i", false, true));
    expect(initialize?.headers).not.toHaveProperty("mcp-session-id");
    expect(readiness?.status).toBe(503);
    expect(JSON.parse(readiness?.body ?? "")).toMatchObject({ status: "not-ready", generation: 1, pid: childPid });
    expect(liveness?.status).toBe(200);
    expect(isGroupAlive(childPid)).toBe(true);

    await writeFile(path, "");
    expect(readError(await inFlight)).toStrictEqual({
      status: 200,
      contentType: "application/json",
      body: { jsonrpc: "2.0", id: "old", result: { content: [{ type: "text", text: "the file is there" }] } },
    });
    expect(await exitAndLogEnd(sidecar)).toBe(0);
    expect(isGroupAlive(childPid)).toBe(false);
  });

  it("a response that is being read arrives whole", async () => {
    await using sidecar = await HttpBench.start({ flags: LONG_DRAIN });
    const client = await sidecar.client();
    const length = 16_000_000;
    const body = JSON.stringify({ jsonrpc: "2.0", id: 2, method: "tools/call", params: { name: "big", arguments: { length } } });
    const request = httpRequest(client.url, { method: "POST", headers: { ...JSON_HEADERS, "Mcp-Session-Id": client.sessionId } });
    request.end(body);
    const [response] = (await once(request, "response")) as [IncomingMessage];
    // The client is slow to read: most of the response is still in the sidecar.
    sidecar.kill("SIGTERM");
    await sidecar.waitForLog("stopping");
    const answer = await text(response);
    expect(answer.length).toBe(Number(response.headers["content-length"]));
    expect(answer.length).toBeGreaterThan(length);
    expect(await exitAndLogEnd(sidecar)).toBe(0);
  });

  it("a client's cancellation of a request in flight is forwarded", async () => {
    await using sidecar = await HttpBench.start({ flags: LONG_DRAIN });
    const client = await sidecar.client();
    const cancel = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "old" } };
    const halfSent = await openHalfSent(sidecar, postBytes(cancel, client.sessionId));
    const inFlight = client.post(waitForFile("/never", "old"));
    await sidecar.waitForLog("waiting for /never");
    await beginDrain(sidecar);
    using connection = halfSent.connection;
    await connection.write(halfSent.rest);
    expect((await connection.reply()).status).toBe(202);
    expect(await inFlight).toMatchObject({ status: 202, body: "" });
    expect(await exitAndLogEnd(sidecar)).toBe(0);
  });

  it("requests in flight at the timeout get an error that reports them as sent", async () => {
    await using sidecar = await HttpBench.start({ flags: SHORT_DRAIN });
    const client = await sidecar.client();
    const call = client.post(waitForFile("/never", 2));
    await sidecar.waitForLog("waiting for /never");
    await client.callTool("mute", { method: "tools/list" });
    const list = client.post({ jsonrpc: "2.0", id: "list", method: "tools/list" });
    while (!(await client.toolText("seen")).includes("tools/list"));
    sidecar.kill("SIGTERM");
    expect(readError(await call)).toStrictEqual(shuttingDown(2, true, false));
    const read = await list;
    expect(readError(read)).toStrictEqual(shuttingDown("list", true, true));
    expect(read.headers).not.toHaveProperty("retry-after");
    expect(await exitAndLogEnd(sidecar)).toBe(0);
  });

  it("requests in flight fail at once if the server exits during the drain", async () => {
    await using sidecar = await HttpBench.start({ flags: [...LONG_DRAIN, ...NO_RESTART] });
    const client = await sidecar.client();
    const call = client.post(waitForFile("/never", 2));
    await sidecar.waitForLog("waiting for /never");
    await beginDrain(sidecar);
    await crash(sidecar);
    const data = { sent: true, retrySafe: false, signal: "SIGKILL" };
    expect(readError(await call)).toStrictEqual(errorReply(200, -32603, "UPSTREAM_EXITED", { id: 2, data }));
    expect(await exitAndLogEnd(sidecar)).toBe(0);
    expect(sidecar.logLines.filter(({ msg }) => msg === "mcp server started")).toHaveLength(1);
  });

  it("an initialize request held for a starting server is answered", async () => {
    await using gate = await Gate.create();
    await using sidecar = await HttpBench.start({ mode: "gated", env: gate.env, flags: SHORT_DRAIN, untilReady: false });
    using connection = await RawConnection.open(sidecar.origin);
    // The first reply shows that the bytes have arrived, and with them the initialize request after it.
    await connection.write(getBytes("/livez") + postBytes(INITIALIZE));
    expect((await connection.reply()).status).toBe(200);
    sidecar.kill("SIGTERM");
    expect(readError(await connection.reply())).toStrictEqual(shuttingDown("i", false, true));
    expect(await exitAndLogEnd(sidecar)).toBe(0);
  });

  it("a request held for a restart gets an error that reports it as not sent", async () => {
    await using sidecar = await HttpBench.start({ flags: [...SHORT_DRAIN, ...NO_RESTART] });
    const client = await sidecar.client();
    await crash(sidecar);
    using connection = await RawConnection.open(sidecar.origin);
    await connection.write(getBytes("/livez") + postBytes(waitForFile("/never", 2), client.sessionId));
    expect((await connection.reply()).status).toBe(200);
    sidecar.kill("SIGTERM");
    expect(readError(await connection.reply())).toStrictEqual(shuttingDown(2, false, true));
    expect(await exitAndLogEnd(sidecar)).toBe(0);
  });

  it("requests on connections that are not accepted yet are answered", async () => {
    await using sidecar = await HttpBench.start({ flags: LONG_DRAIN });
    // A stopped process finds all of these at once, as on a machine that was busy for a moment.
    sidecar.kill("SIGSTOP");
    const connections = await Promise.all(Array.from({ length: 400 }, () => RawConnection.open(sidecar.origin)));
    await Promise.all(connections.map((connection) => connection.write(postBytes(INITIALIZE))));
    sidecar.kill("SIGTERM");
    sidecar.kill("SIGCONT");
    const replies = await Promise.all(
      connections.map(async (connection) => {
        using open = connection;
        return await open.reply();
      }),
    );
    // Some requests may be read before the signal.
    for (const { status, body } of replies) {
      expect([200, 503]).toContain(status);
      expect(JSON.parse(body)).toMatchObject({ id: "i" });
    }
    expect(await exitAndLogEnd(sidecar)).toBe(0);
  });

  it("new requests and health checks are answered, and their connections closed", async () => {
    await using dir = await TempDir.create();
    const path = dir.file("go");
    await using sidecar = await HttpBench.start({ flags: LONG_DRAIN });
    const client = await sidecar.client();
    using kept = await RawConnection.open(sidecar.origin);
    await kept.write(getBytes("/readyz"));
    expect(await kept.reply()).toMatchObject({ status: 200, headers: { connection: "keep-alive" } });
    const inFlight = client.post(waitForFile(path, "old"));
    await sidecar.waitForLog(`waiting for ${path}`);
    await beginDrain(sidecar);

    await kept.write(getBytes("/readyz"));
    expect(await kept.reply()).toMatchObject({ status: 503, headers: { connection: "close" } });
    expect(await kept.rest()).toEqual({ text: "", end: "closed" });
    expect(await readReadiness(sidecar)).toMatchObject({ httpStatus: 503, status: "not-ready", state: "stopping" });
    expect(await readStatus(sidecar)).toMatchObject({ state: "stopping", lanes: { shared: { requestsInFlight: 1 } } });
    const refused = await client.post({ jsonrpc: "2.0", id: "new", method: "tools/list" });
    expect(readError(refused)).toStrictEqual(shuttingDown("new", false, true));
    expect(refused.headers).toMatchObject({ connection: "close", "retry-after": "1" });
    expect(readError(await new McpClient(sidecar.url).post(INITIALIZE))).toStrictEqual(shuttingDown("i", false, true));
    const refusedStream = await client.get();
    expect(refusedStream).toMatchObject({ status: 503, headers: { "retry-after": "1" } });

    await writeFile(path, "");
    expect((await inFlight).headers).toMatchObject({ connection: "close" });
    expect(await exitAndLogEnd(sidecar)).toBe(0);
  });

  it("two pipelined requests are both answered before their connection is closed", async () => {
    await using dir = await TempDir.create();
    const path = dir.file("go");
    await using sidecar = await HttpBench.start({ flags: LONG_DRAIN });
    const client = await sidecar.client();
    using connection = await RawConnection.open(sidecar.origin);
    await connection.write(postBytes(waitForFile(path, 1), client.sessionId));
    await sidecar.waitForLog(`waiting for ${path}`);
    await connection.write(postBytes(waitForFile(path, 2), client.sessionId));
    await sidecar.waitFor(() => sidecar.logLines.filter(({ msg }) => msg === `waiting for ${path}`)[1], "the second call");
    await beginDrain(sidecar);
    await writeFile(path, "");
    const [first, second] = [await connection.reply(), await connection.reply()];
    expect([first, second].map(({ status, headers }) => [status, headers.connection])).toEqual([
      [200, "keep-alive"],
      [200, "close"],
    ]);
    expect(await connection.rest()).toEqual({ text: "", end: "closed" });
    expect(await exitAndLogEnd(sidecar)).toBe(0);
  });

  it("event streams end whole: GET streams at once, others after their response", async () => {
    await using dir = await TempDir.create();
    const path = dir.file("go");
    await using sidecar = await HttpBench.start({ flags: LONG_DRAIN });
    const client = await sidecar.client();
    using get = await RawConnection.open(sidecar.origin);
    await get.write(getBytes("/mcp", client.getHeaders()));
    while ((await readStatus(sidecar)).openStreams === 0);
    using post = await RawConnection.open(sidecar.origin);
    const params = { name: "wait_for_file", arguments: { path }, _meta: { progressToken: "mine" } };
    await post.write(postBytes({ jsonrpc: "2.0", id: 7, method: "tools/call", params }, client.sessionId));
    while ((await readStatus(sidecar)).openStreams === 1);
    await beginDrain(sidecar);
    while ((await readStatus(sidecar)).openStreams === 2);
    await writeFile(path, "");
    const [getEnd, postEnd] = [await get.rest(), await post.rest()];
    expect(getEnd).toEqual({ text: expect.stringMatching(/\r\n0\r\n\r\n$/) as string, end: "closed" });
    expect(postEnd).toEqual({ text: expect.stringMatching(/"the file is there"[\s\S]*\r\n0\r\n\r\n$/) as string, end: "closed" });
    expect(await exitAndLogEnd(sidecar)).toBe(0);
  });

  it("a server request during the drain still gets its response", async () => {
    await using sidecar = await HttpBench.start({ flags: LONG_DRAIN });
    const client = await LaneClient.connect(sidecar);
    using call = await client.begin("ask", { method: "elicitation/create" });
    const asked = await call.next();
    await beginDrain(sidecar);
    expect((await client.answer(asked, { action: "accept" })).status).toBe(202);
    expect(JSON.parse((await call.toolText()) ?? "")).toMatchObject({ result: { action: "accept" } });
    expect(await exitAndLogEnd(sidecar)).toBe(0);
    const ends = sidecar.logLines.filter(({ msg }) => msg === "mcp server ended");
    expect(ends.map(({ exitCode, reason }) => [exitCode, reason])).toEqual([
      [0, "shutdown"],
      [0, "shutdown"],
    ]);
  });

  it("a client that does not read its response delays the exit until the timeout", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--drain-timeout-ms", "300", "--reader-timeout-ms", "600000"] });
    const client = await sidecar.client();
    const params = { name: "big", arguments: { length: 32 * 1024 * 1024 } };
    const before = (await readStatus(sidecar)).counters.answers.results;
    using unread = await openUnread(sidecar.origin, postBytes({ jsonrpc: "2.0", id: 7, method: "tools/call", params }, client.sessionId));
    // The server has sent its response, so the drain waits for the client only.
    while ((await readStatus(sidecar)).counters.answers.results === before);
    const startedAtMs = performance.now();
    sidecar.kill("SIGTERM");
    expect(await exitAndLogEnd(sidecar)).toBe(0);
    expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(300);
    expect(unread.readableFlowing).toBe(false);
  });
});
