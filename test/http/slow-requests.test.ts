import { expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { answerOf, HeldCall, progressOf, say } from "../support/held-call.ts";
import { readSeen, waitForHanging } from "../support/fixture-server.ts";
import { type McpClient, toolCall } from "../support/mcp-client.ts";
import { RawConnection, getBytes, postBytes } from "../support/raw-connection.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";

/** Longer than a busy machine needs for a whole request. */
const HEADERS_TIMEOUT_MS = 3000;
const BODY_TIMEOUT_MS = 6000;
const FLAGS = ["--headers-timeout-ms", String(HEADERS_TIMEOUT_MS), "--body-timeout-ms", String(BODY_TIMEOUT_MS)];
/** Only the limit for headers can end a request. */
const HEADERS_ONLY = ["--headers-timeout-ms", String(HEADERS_TIMEOUT_MS), "--body-timeout-ms", "600000"];
const TOO_LATE = errorReply(408, -32000, "BODY_INCOMPLETE", { data: { sent: false } });
const NEVER = "x-test/never-arrived";

function bytesOf(client: McpClient, message: object): string {
  return postBytes(message, client.sessionId);
}

function cutShort(bytes: string): string {
  return bytes.slice(0, -1);
}

const sidecar = disposeAfterAll(await HttpBench.start({ flags: FLAGS }));
const ofHeaders = disposeAfterAll(await HttpBench.start({ flags: HEADERS_ONLY }));
const client = await sidecar.client();

/** Sends these bytes and expects a single 408. @returns the milliseconds until it arrives. */
async function expect408(bytes: string, { origin }: RunningSidecar = sidecar): Promise<number> {
  const startedAtMs = performance.now();
  using connection = await RawConnection.open(origin);
  await connection.write(bytes);
  const reply = await connection.reply();
  const takenMs = performance.now() - startedAtMs;
  expect(readError(reply)).toStrictEqual(TOO_LATE);
  expect(reply.headers["connection"]).toBe("close");
  expect(await connection.rest()).toEqual({ text: "", end: "closed" });
  return takenMs;
}

it.concurrent.each([
  "G",
  "GET /livez",
  "GET /livez HTTP/1.1\r\nHost: localhost\r\n",
  "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Le",
])("the request gets 408 after HEADERS_TIMEOUT_MS if its headers end in %j", async (bytes) => {
  expect(await expect408(bytes, ofHeaders)).toBeGreaterThanOrEqual(HEADERS_TIMEOUT_MS);
});

it.concurrent("a body that trickles in small chunks gets 408", async () => {
  using connection = await RawConnection.open(sidecar.origin);
  const head = bytesOf(client, { jsonrpc: "2.0", id: 7, method: NEVER }).replace(/Content-Length: [\s\S]*$/, "");
  await connection.write(`${head}Transfer-Encoding: chunked\r\n\r\n`);
  const trickle = setInterval(() => void connection.write("1\r\n \r\n").catch(() => undefined), 50);
  expect(readError(await connection.reply())).toStrictEqual(TOO_LATE);
  clearInterval(trickle);
});

it.concurrent("a request that is completed after its 408 is not forwarded", async () => {
  for (const end of [-1, "POST /mcp HTTP/1.1\r\nHost".length]) {
    using connection = await RawConnection.open(sidecar.origin, true);
    const bytes = bytesOf(client, { jsonrpc: "2.0", id: 7, method: NEVER });
    await connection.write(bytes.slice(0, end));
    expect(readError(await connection.reply())).toStrictEqual(TOO_LATE);
    await connection.write(bytes.slice(end));
    connection.end();
    expect((await connection.rest()).text).toBe("");
  }
  expect(await readSeen(client)).not.toContain(NEVER);
});

it.concurrent("a request that was rejected before its end gets no second response", async () => {
  using connection = await RawConnection.open(sidecar.origin);
  await connection.write(cutShort(bytesOf(client, { pad: 1 }).replace("application/json", "text/plain")));
  expect((await connection.reply()).status).toBe(415);
  expect((await connection.rest()).text).toBe("");
});

it.concurrent("the timeouts exclude responses, event streams and idle connections", async () => {
  using connection = await RawConnection.open(sidecar.origin);
  await connection.write(getBytes("/livez"));
  expect((await connection.reply()).status).toBe(200);
  const slow = client.post(toolCall("hang", {}, 8));
  await waitForHanging(client, 1);
  using stream = await client.openStream();
  const call = await HeldCall.start(client, client);
  await call.progress(1);
  using answer = await call.stream;
  for (let times = 0; times < 2; times++) await expect408(cutShort(bytesOf(client, { pad: times })));
  await connection.write(getBytes("/livez"));
  expect((await connection.reply()).status).toBe(200);
  const changed = { jsonrpc: "2.0", method: "notifications/tools/list_changed" };
  await say(client, JSON.stringify(changed));
  expect(await stream.messages(1)).toEqual([changed]);
  await call.answer();
  expect(await answer.rest()).toEqual([progressOf(1), answerOf()]);
  await client.toolText("release");
  expect((await slow).status).toBe(200);
});

it.concurrent("the preceding request on the connection still gets its response, which is the last", async () => {
  await using own = await HttpBench.start({ flags: FLAGS });
  const caller = await own.client();
  using connection = await RawConnection.open(own.origin);
  const before = await waitForHanging(caller, 0);
  const call = toolCall("hang", {}, 7);
  await connection.write(`${bytesOf(caller, call)}POST /mcp HT`);
  await waitForHanging(caller, before.length + 1);
  for (let times = 0; times < 2; times++) await expect408("GET");
  await caller.toolText("release");
  expect((await connection.reply()).status).toBe(200);
  expect(await connection.rest()).toEqual({ text: "", end: "closed" });
});
