import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { type IncomingMessage, request as httpRequest } from "node:http";
import { text } from "node:stream/consumers";
import { expect, it } from "vitest";
import { NO_RESTART, crash, waitForHanging } from "../support/fixture-server.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { LaneClient } from "../support/lane-client.ts";
import { initializeRequest, JSON_HEADERS, toolCall } from "../support/mcp-client.ts";
import { RawConnection, getBytes, postBytes } from "../support/raw-connection.ts";
import { openUnread } from "../support/open-sockets.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";

/** The drain ends when its requests have, however busy the machine is. */
const LONG_DRAIN = ["--drain-timeout-ms", "600000"];

async function beginDrain(sidecar: RunningSidecar): Promise<void> {
  sidecar.kill("SIGTERM");
  await sidecar.waitForLog("stopping");
}

it("a response that is being read arrives whole", async () => {
  await using sidecar = await HttpBench.start({ flags: LONG_DRAIN });
  const client = await sidecar.client();
  const length = 16_000_000;
  const request = httpRequest(client.url, { method: "POST", headers: { ...JSON_HEADERS, "Mcp-Session-Id": client.sessionId } });
  request.end(JSON.stringify(toolCall("big", { length })));
  const [response] = (await once(request, "response")) as [IncomingMessage];
  // The client is slow to read: most of the response is still in the sidecar.
  sidecar.kill("SIGTERM");
  await sidecar.waitForLog("stopping");
  const answer = await text(response);
  expect(answer.length).toBe(Number(response.headers["content-length"]));
  expect(answer.length).toBeGreaterThan(length);
  expect(await sidecar.ended).toBe(0);
});

it("requests in flight fail at once if the server exits during the drain", async () => {
  await using sidecar = await HttpBench.start({ flags: [...LONG_DRAIN, ...NO_RESTART] });
  const client = await sidecar.client();
  const call = client.post(toolCall("wait_for_file", { path: "/never" }, 2));
  await sidecar.waitForLog("waiting for /never");
  await beginDrain(sidecar);
  await crash(sidecar);
  const data = { sent: true, retrySafe: false, signal: "SIGKILL" };
  expect(readError(await call)).toStrictEqual(errorReply(200, -32603, "UPSTREAM_EXITED", { id: 2, data }));
  expect(await sidecar.ended).toBe(0);
  expect(sidecar.logLines.filter(({ msg }) => msg === "mcp server started")).toHaveLength(1);
});

it("requests on connections that are not accepted yet are answered", async () => {
  await using sidecar = await HttpBench.start({ flags: LONG_DRAIN });
  // A stopped process finds all of these at once, as on a machine that was busy for a moment.
  sidecar.kill("SIGSTOP");
  const connections = await Promise.all(Array.from({ length: 400 }, () => RawConnection.open(sidecar.origin)));
  await Promise.all(connections.map((connection) => connection.write(postBytes(initializeRequest()))));
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
    expect(JSON.parse(body)).toMatchObject({ id: 1 });
  }
  expect(await sidecar.ended).toBe(0);
});

it("two pipelined requests are both answered before their connection is closed", async () => {
  await using sidecar = await HttpBench.start({ flags: LONG_DRAIN });
  const path = sidecar.directory.file("go");
  const client = await sidecar.client();
  using connection = await RawConnection.open(sidecar.origin);
  await connection.write(postBytes(toolCall("wait_for_file", { path }, 1), client.sessionId));
  await sidecar.waitForLog(`waiting for ${path}`);
  await connection.write(postBytes(toolCall("wait_for_file", { path }, 2), client.sessionId));
  await sidecar.waitFor(() => sidecar.logLines.filter(({ msg }) => msg === `waiting for ${path}`)[1], "the second call");
  await beginDrain(sidecar);
  await writeFile(path, "");
  const [first, second] = [await connection.reply(), await connection.reply()];
  expect([first, second].map(({ status, headers }) => [status, headers.connection])).toEqual([
    [200, "keep-alive"],
    [200, "close"],
  ]);
  expect(await connection.rest()).toEqual({ text: "", end: "closed" });
  expect(await sidecar.ended).toBe(0);
});

it("event streams end whole: GET streams at once, others after their response", async () => {
  await using sidecar = await HttpBench.start({ flags: LONG_DRAIN });
  const path = sidecar.directory.file("go");
  const client = await sidecar.client();
  using get = await RawConnection.open(sidecar.origin);
  await get.write(getBytes("/mcp", client.getHeaders()));
  while ((await readStatus(sidecar)).openStreams === 0);
  using post = await RawConnection.open(sidecar.origin);
  await post.write(postBytes(toolCall("wait_for_file", { path }, 7, { progressToken: "mine" }), client.sessionId));
  while ((await readStatus(sidecar)).openStreams === 1);
  await beginDrain(sidecar);
  while ((await readStatus(sidecar)).openStreams === 2);
  await writeFile(path, "");
  const [getEnd, postEnd] = [await get.rest(), await post.rest()];
  expect(getEnd).toEqual({ text: expect.stringMatching(/\r\n0\r\n\r\n$/) as string, end: "closed" });
  expect(postEnd).toEqual({ text: expect.stringMatching(/"the file is there"[\s\S]*\r\n0\r\n\r\n$/) as string, end: "closed" });
  expect(await sidecar.ended).toBe(0);
});

it("responses to the server and cancellations are still forwarded", async () => {
  await using sidecar = await HttpBench.start({ flags: LONG_DRAIN });
  const [client, cancelling] = [await LaneClient.connect(sidecar), await sidecar.client()];
  const inFlight = cancelling.post(toolCall("hang", {}, "old"));
  await waitForHanging(cancelling, 1);
  using call = await client.begin("ask", { method: "elicitation/create" });
  const asked = await call.next();
  await beginDrain(sidecar);
  expect((await client.answer(asked, { action: "accept" })).status).toBe(202);
  expect(JSON.parse((await call.toolText()) ?? "")).toMatchObject({ result: { action: "accept" } });
  expect((await cancelling.notify("notifications/cancelled", { requestId: "old" })).status).toBe(202);
  expect(await inFlight).toMatchObject({ status: 202, body: "" });
  expect(await sidecar.ended).toBe(0);
  const ends = sidecar.logLines.filter(({ msg }) => msg === "mcp server ended");
  expect(ends.map(({ exitCode, reason }) => [exitCode, reason])).toEqual([
    [0, "shutdown"],
    [0, "shutdown"],
  ]);
});

it("a client that does not read its response delays the exit until the timeout", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--drain-timeout-ms", "300", "--reader-timeout-ms", "600000"] });
  const client = await sidecar.client();
  const before = (await readStatus(sidecar)).counters.answers.results;
  using unread = await openUnread(sidecar.origin, postBytes(toolCall("big", { length: 32 * 1024 * 1024 }), client.sessionId));
  // The server has sent its response, so the drain waits for the client only.
  while ((await readStatus(sidecar)).counters.answers.results === before);
  const startedAtMs = performance.now();
  sidecar.kill("SIGTERM");
  expect(await sidecar.ended).toBe(0);
  expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(300);
  expect(unread.readableFlowing).toBe(false);
});

const LONG_MS = "600000";
const PING = { jsonrpc: "2.0", id: 2, method: "ping" };
const REJECTED = errorReply(503, -32000, "SHUTTING_DOWN", { id: 2, data: { retryAfterSeconds: 1 } });

it("PRE_STOP_MS is over if the server reaches RESTART_LIMIT", async () => {
  const flags = ["--pre-stop-ms", LONG_MS, "--restart-limit", "1", "--restart-backoff-ms", "1"];
  await using sidecar = await HttpBench.start({ flags });
  const client = await sidecar.client();
  sidecar.kill("SIGTERM");
  await sidecar.waitForLog("stopping");
  for (const _ of [1, 2]) await client.callTool("exit", { code: 3 });
  expect(await sidecar.ended).toBe(0);
});

it("requests are rejected after PRE_STOP_MS", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--pre-stop-ms", "5000", "--drain-timeout-ms", LONG_MS] });
  const [client, control] = [await sidecar.client(), await sidecar.client()];
  // It keeps the drain from its end.
  const call = client.callTool("hang");
  await waitForHanging(control, 1);
  sidecar.kill("SIGTERM");
  await sidecar.waitForLog("stopping");
  let reply = await client.post(PING);
  expect(reply.status).toBe(200);
  while (reply.status === 200) reply = await client.post(PING);
  expect(readError(reply)).toStrictEqual(REJECTED);
  sidecar.kill("SIGTERM");
  await call.catch(() => undefined);
  expect(await sidecar.ended).toBe(143);
});
