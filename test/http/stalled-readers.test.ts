import { describe, expect, it } from "vitest";
import { HeldCall, answerOf, say } from "../support/held-call.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { getBytes, postBytes } from "../support/raw-connection.ts";
import { countSockets, openUnread, waitForSockets } from "../support/open-sockets.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { LogLine, RunningSidecar } from "../support/running-sidecar.ts";
import { eventIdAt, readStatus } from "../support/status.ts";
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { readSeen, waitForHanging } from "../support/fixture-server.ts";

/** Longer than a busy machine lets a reader wait beyond its own pauses. */
const TIMEOUT_MS = 2000;
const FLAGS = ["--reader-timeout-ms", String(TIMEOUT_MS)];
const ANSWER_LENGTH = 32 * 1024 * 1024;
/** More megabytes than the operating system buffers for one connection. */
const MESSAGES = 12;
const STEP_BYTES = 2 * 1024 * 1024;
const PAUSE_MS = 500;
const MB = 1_000_000;
/** More megabytes than the operating system and the sidecar buffer for one reader. */
const FLOOD = 48;

function bigCall(client: McpClient): string {
  const params = { name: "big", arguments: { length: ANSWER_LENGTH } };
  return postBytes({ jsonrpc: "2.0", id: 7, method: "tools/call", params }, client.sessionId);
}

function listChanged(index: number): string {
  const params = { index, padding: "p".repeat(MB) };
  return JSON.stringify({ jsonrpc: "2.0", method: "notifications/tools/list_changed", params });
}

function indexOf(message: unknown): number {
  return (message as { params: { index: number } }).params.index;
}

function cuts(sidecar: RunningSidecar): LogLine[] {
  return sidecar.logLines.filter(({ msg }) => msg === "connection cut off");
}

async function openDeaf(sidecar: RunningSidecar, deaf: McpClient): ReturnType<typeof openUnread> {
  const { openStreams } = await readStatus(sidecar);
  const unread = await openUnread(sidecar.origin, getBytes("/mcp", deaf.getHeaders()));
  while ((await readStatus(sidecar)).openStreams === openStreams);
  return unread;
}

describe("a client that stops reading", () => {
  it("the client's stream is closed and can be resumed, and idle streams stay open", async () => {
    await using sidecar = await HttpBench.start({ flags: FLAGS });
    const [deaf, listening, control] = [await sidecar.client(), await sidecar.client(), await sidecar.client()];
    using stream = await listening.openStream();
    using unread = await openDeaf(sidecar, deaf);
    const indexes = Array.from({ length: MESSAGES }, (_, index) => index + 1);
    for (const index of indexes) await say(control, listChanged(index));
    expect((await stream.messages(MESSAGES)).map(indexOf)).toEqual(indexes);
    await sidecar.waitFor(() => cuts(sidecar)[0], "the first cut");
    // Until the next stream is closed, for as long again without a message.
    using unreadAgain = await openUnread(sidecar.origin, bigCall(control));
    await sidecar.waitFor(() => cuts(sidecar)[1], "the second cut");
    expect([unread.readableFlowing, unreadAgain.readableFlowing]).toEqual([false, false]);
    await say(control, listChanged(MESSAGES + 1));
    expect((await stream.messages(1)).map(indexOf)).toEqual([MESSAGES + 1]);
    expect((await readStatus(sidecar)).counters.http.readersCutOff).toBe(2);
    using resumed = await deaf.openStream({ lastEventId: await eventIdAt(sidecar, "s1-0") });
    const replayed: number[] = [];
    while (replayed.at(-1) !== MESSAGES + 1) replayed.push(...(await resumed.messages(1)).map(indexOf));
    expect(replayed.length).toBeGreaterThan(1);
    expect(replayed).toEqual([...indexes, MESSAGES + 1].slice(-replayed.length));
  });
});

describe("a client that reads slowly", () => {
  it("the client's connection stays open, however long a response takes", async () => {
    await using sidecar = await HttpBench.start({ flags: FLAGS });
    const client = await sidecar.client();
    const startedAtMs = performance.now();
    const answer = await readSlowly(sidecar.origin, bigCall(client).replace("Host:", "Connection: close\r\nHost:"));
    expect(performance.now() - startedAtMs).toBeGreaterThan(3 * TIMEOUT_MS);
    expect(answer.subarray(-5).toString()).toBe('"}]}}');
    expect(answer.length).toBeGreaterThan(ANSWER_LENGTH);
    expect((await readStatus(sidecar)).counters.http.readersCutOff).toBe(0);
  });
});

/** Sends this, and reads the response with a pause after each step. @returns all that arrived until the server closed the connection. */
async function readSlowly(origin: string, bytes: string): Promise<Buffer> {
  const { hostname, port } = new URL(origin);
  const socket = connect(Number(port), hostname);
  await once(socket, "connect");
  socket.write(bytes);
  const chunks: Buffer[] = [];
  let step = 0;
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    step += chunk.length;
    if (step < STEP_BYTES) continue;
    step = 0;
    await delay(PAUSE_MS);
  }
  return Buffer.concat(chunks);
}

it("a stream too far behind is closed, and no other client waits until then", async () => {
  await using sidecar = await HttpBench.start();
  const [deaf, listening, control] = [await sidecar.client(), await sidecar.client(), await sidecar.client()];
  using stream = await listening.openStream();
  const before = countSockets(sidecar.address);
  using unread = await openUnread(sidecar.origin, getBytes("/mcp", deaf.getHeaders()));
  while (countSockets(sidecar.address) === before);
  for (let index = 1; index <= FLOOD; index++) {
    await say(control, listChanged(index));
    expect(await control.toolText("echo", { text: "served" })).toBe("served");
    expect((await stream.messages(1)).map(indexOf)).toEqual([index]);
  }
  await waitForSockets(sidecar.address, before);
  // The events that it missed, as far as they are kept, are replayed in order, each once, up to the last.
  using resumed = await deaf.openStream({ lastEventId: await eventIdAt(sidecar, "s1-0") });
  const indexes: number[] = [];
  while (indexes.at(-1) !== FLOOD) indexes.push(...(await resumed.messages(1)).map(indexOf));
  expect(indexes).toEqual([...new Set(indexes)].toSorted((a, b) => a - b));
  expect(indexes.length).toBeGreaterThan(1);
  expect(unread.readableFlowing).toBe(false);
});

it("a call outlives its closed stream, and its response can be resumed", async () => {
  await using sidecar = await HttpBench.start();
  const [deaf, control] = [await sidecar.client(), await sidecar.client()];
  const before = countSockets(sidecar.address);
  const params = { name: "hang", arguments: {}, _meta: { progressToken: "mine" } };
  using unread = await openUnread(sidecar.origin, postBytes({ jsonrpc: "2.0", id: 7, method: "tools/call", params }, deaf.sessionId));
  const [wireId] = await waitForHanging(control, 1);
  for (let progress = 1; progress <= FLOOD; progress++) {
    const message = { progressToken: wireId, progress, message: "p".repeat(MB) };
    await say(control, JSON.stringify({ jsonrpc: "2.0", method: "notifications/progress", params: message }));
  }
  await waitForSockets(sidecar.address, before);
  await say(control, JSON.stringify({ jsonrpc: "2.0", id: wireId, result: { content: [{ type: "text", text: "done" }] } }));
  expect(await readSeen(control)).not.toContain(`notifications/cancelled ${wireId}`);
  using resumed = await deaf.openStream({ lastEventId: await eventIdAt(sidecar, "r1-0") });
  expect((await resumed.rest()).at(-1)).toEqual(answerOf());
  expect(unread.readableFlowing).toBe(false);
});

it("a stream that is taken over repeatedly holds one connection", async () => {
  await using sidecar = await HttpBench.start();
  const [client, control] = [await sidecar.client(), await sidecar.client()];
  using lost = await client.openStream();
  // More than the operating system buffers for one connection that is not read.
  const indexes = [1, 2, 3, 4, 5, 6, 7, 8];
  for (const index of indexes) await say(control, listChanged(index));
  await lost.messages(indexes.length);
  const before = countSockets(sidecar.address);
  const bytes = getBytes("/mcp", client.getHeaders({ lastEventId: await eventIdAt(sidecar, "s1-0") }));
  const unread = await Promise.all(Array.from({ length: 20 }, () => openUnread(sidecar.origin, bytes)));
  expect(await lost.rest()).toEqual([]);
  using resumed = await client.openStream({ lastEventId: await eventIdAt(sidecar, "s1-0") });
  expect((await resumed.messages(indexes.length)).map(indexOf)).toEqual(indexes);
  await waitForSockets(sidecar.address, before);
  for (const socket of unread) socket.destroy();
});

it("an unread stream delays the sidecar's exit by at most DRAIN_TIMEOUT_MS", async () => {
  await using sidecar = await HttpBench.start({ flags: ["--drain-timeout-ms", "100"] });
  const [deaf, control] = [await sidecar.client(), await sidecar.client()];
  const before = countSockets(sidecar.address);
  using unread = await openUnread(sidecar.origin, getBytes("/mcp", deaf.getHeaders()));
  while (countSockets(sidecar.address) === before);
  for (let index = 1; index <= 12; index++) await say(control, listChanged(index));
  const call = await HeldCall.start(control, control);
  await call.progress(1);
  using answer = await call.stream;
  const stopped = sidecar.stop();
  expect((await answer.rest()).at(-1)).toMatchObject({ id: 7, error: { data: { code: "SHUTTING_DOWN" } } });
  expect(await stopped).toBe(0);
  expect(unread.readableFlowing).toBe(false);
});
