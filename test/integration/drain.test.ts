import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { type IncomingMessage, request as httpRequest } from "node:http";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { crash } from "../support/crash.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { Gate } from "../support/gate.ts";
import { exitAndLogEnd } from "../support/log-end.ts";
import { JSON_HEADERS } from "../support/http-client.ts";
import { getBytes, postBytes } from "../support/mcp-request-bytes.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { isGroupAlive, Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const SHORT_DRAIN = ["--drain-timeout-ms", "20"];
const NO_RESTART = ["--restart-backoff-ms", "600000", "--restart-max-ms", "600000"];
const INITIALIZE = { jsonrpc: "2.0", id: "i", method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {} } };

/** Once it was sent, nobody on the way may repeat the request for its HTTP status. */
function shuttingDown(id: string | number, sent: boolean, retrySafe: boolean): object {
  return sent
    ? errorReply(200, -32000, "SHUTTING_DOWN", { id, data: { sent, retrySafe } })
    : errorReply(503, -32000, "SHUTTING_DOWN", { id, data: { sent, retrySafe, retryAfterSeconds: 1 } });
}

function waitForFile(path: string, id: string | number): object {
  return { jsonrpc: "2.0", id, method: "tools/call", params: { name: "wait_for_file", arguments: { path } } };
}

/** A connection on which the server has already read the first bytes of the request, so that it is not idle. */
async function openHalfSent(sidecar: Sidecar, bytes: string): Promise<{ readonly connection: RawConnection; readonly rest: string }> {
  const connection = await RawConnection.open(sidecar.origin);
  await connection.write(getBytes("/livez") + bytes.slice(0, 10));
  expect((await connection.reply()).status).toBe(200);
  return { connection, rest: bytes.slice(10) };
}

/** SIGTERM; returns when no new connection is accepted any more, and so draining has begun. */
async function beginDrain(sidecar: Sidecar): Promise<void> {
  sidecar.process.kill("SIGTERM");
  let outcome = "accepted";
  // A reset one was still waiting to be accepted.
  while (outcome === "accepted" || outcome === "ECONNRESET") outcome = await connectionOutcome(sidecar);
  expect(outcome).toBe("ECONNREFUSED");
}

async function connectionOutcome(sidecar: Sidecar): Promise<string> {
  try {
    const connection = await RawConnection.open(sidecar.origin);
    connection[Symbol.dispose]();
    return "accepted";
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code);
  }
}

describe("drain", () => {
  it("lets requests in flight finish, refuses new ones, and then exits 0", async () => {
    await using dir = await TempDir.create();
    const path = dir.file("go");
    await using sidecar = await Sidecar.start();
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

  it("lets an answer that is being read arrive whole", async () => {
    await using sidecar = await Sidecar.start();
    const client = await sidecar.client();
    const length = 16_000_000;
    const body = JSON.stringify({ jsonrpc: "2.0", id: 2, method: "tools/call", params: { name: "big", arguments: { length } } });
    const request = httpRequest(client.url, { method: "POST", headers: { ...JSON_HEADERS, "Mcp-Session-Id": client.sessionId } });
    request.end(body);
    const [response] = (await once(request, "response")) as [IncomingMessage];
    // A reader that is slow to begin: most of the answer is still in the sidecar.
    sidecar.process.kill("SIGTERM");
    await sidecar.waitForLog("stopping");
    const answer = await text(response);
    expect(answer.length).toBe(Number(response.headers["content-length"]));
    expect(answer.length).toBeGreaterThan(length);
    expect(await exitAndLogEnd(sidecar)).toBe(0);
  });

  it("carries a client's cancellation of a request in flight", async () => {
    await using sidecar = await Sidecar.start();
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

  it("answers what is still in flight at its bound, says that it was sent, and exits 0", async () => {
    await using sidecar = await Sidecar.start({ flags: SHORT_DRAIN });
    const client = await sidecar.client();
    const call = client.post(waitForFile("/never", 2));
    await sidecar.waitForLog("waiting for /never");
    await client.callTool("mute", { method: "tools/list" });
    const list = client.post({ jsonrpc: "2.0", id: "list", method: "tools/list" });
    while (!(await client.toolText("seen")).includes("tools/list"));
    sidecar.process.kill("SIGTERM");
    expect(readError(await call)).toStrictEqual(shuttingDown(2, true, false));
    const read = await list;
    expect(readError(read)).toStrictEqual(shuttingDown("list", true, true));
    expect(read.headers).not.toHaveProperty("retry-after");
    expect(await exitAndLogEnd(sidecar)).toBe(0);
  });

  it("answers in-flight requests when the server exits meanwhile, and does not restart it", async () => {
    await using sidecar = await Sidecar.start({ flags: NO_RESTART });
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

  it("answers an initialize that waits for a server that is starting", async () => {
    await using gate = await Gate.create();
    await using sidecar = await Sidecar.start({ mode: "gated", env: gate.env, flags: SHORT_DRAIN, untilReady: false });
    using connection = await RawConnection.open(sidecar.origin);
    // The first reply shows that the bytes have arrived, and so the initialize right behind it.
    await connection.write(getBytes("/livez") + postBytes(INITIALIZE));
    expect((await connection.reply()).status).toBe(200);
    sidecar.process.kill("SIGTERM");
    expect(readError(await connection.reply())).toStrictEqual(shuttingDown("i", false, true));
    expect(await exitAndLogEnd(sidecar)).toBe(0);
  });

  it("answers a request that waits for a restart, and says that it was not sent", async () => {
    await using sidecar = await Sidecar.start({ flags: [...SHORT_DRAIN, ...NO_RESTART] });
    const client = await sidecar.client();
    await crash(sidecar);
    using connection = await RawConnection.open(sidecar.origin);
    await connection.write(getBytes("/livez") + postBytes(waitForFile("/never", 2), client.sessionId));
    expect((await connection.reply()).status).toBe(200);
    sidecar.process.kill("SIGTERM");
    expect(readError(await connection.reply())).toStrictEqual(shuttingDown(2, false, true));
    expect(await exitAndLogEnd(sidecar)).toBe(0);
  });
});
