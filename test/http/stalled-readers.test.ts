import { describe, expect, it } from "vitest";
import { say } from "../support/held-call.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { getBytes, postBytes } from "../support/raw-connection.ts";
import { openUnread } from "../support/open-sockets.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { LogLine, RunningSidecar } from "../support/running-sidecar.ts";
import { eventIdAt, readStatus } from "../support/status.ts";
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

/** Longer than a busy machine lets a reader wait beyond its own pauses. */
const TIMEOUT_MS = 2000;
const FLAGS = ["--reader-timeout-ms", String(TIMEOUT_MS)];
const ANSWER_LENGTH = 32 * 1024 * 1024;
/** More megabytes than the operating system buffers for one connection. */
const MESSAGES = 12;
const SLOW = { stepBytes: 2 * 1024 * 1024, pauseMs: 500 };

function bigCall(client: McpClient): string {
  const params = { name: "big", arguments: { length: ANSWER_LENGTH } };
  return postBytes({ jsonrpc: "2.0", id: 7, method: "tools/call", params }, client.sessionId);
}

function listChanged(index: number): string {
  const params = { index, padding: "p".repeat(1_000_000) };
  return JSON.stringify({ jsonrpc: "2.0", method: "notifications/tools/list_changed", params });
}

function indexOf(message: unknown): number {
  return (message as { params: { index: number } }).params.index;
}

function cuts(sidecar: RunningSidecar): LogLine[] {
  return sidecar.logLines.filter(({ msg }) => msg === "connection cut off");
}

/** Opens a stream of this client that is not read. */
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
    const answer = await readSlowly(sidecar.origin, bigCall(client).replace("Host:", "Connection: close\r\nHost:"), SLOW);
    expect(performance.now() - startedAtMs).toBeGreaterThan(3 * TIMEOUT_MS);
    expect(answer.subarray(-5).toString()).toBe('"}]}}');
    expect(answer.length).toBeGreaterThan(ANSWER_LENGTH);
    expect((await readStatus(sidecar)).counters.http.readersCutOff).toBe(0);
  });
});

interface SlowReading {
  readonly stepBytes: number;
  readonly pauseMs: number;
}

/** Sends this, and reads the response with a pause after each step. @returns all that arrived until the server closed the connection. */
async function readSlowly(origin: string, bytes: string, { stepBytes, pauseMs }: SlowReading): Promise<Buffer> {
  const { hostname, port } = new URL(origin);
  const socket = connect(Number(port), hostname);
  await once(socket, "connect");
  socket.write(bytes);
  const chunks: Buffer[] = [];
  let step = 0;
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    step += chunk.length;
    if (step < stepBytes) continue;
    step = 0;
    await delay(pauseMs);
  }
  return Buffer.concat(chunks);
}
