import { expect, it } from "vitest";
import { answerOf, HeldCall, say } from "../support/held-call.ts";
import { readSeen, waitForHanging } from "../support/fixture-server.ts";
import { getBytes, postBytes } from "../support/raw-connection.ts";
import { countSockets, openUnread, waitForSockets } from "../support/open-sockets.ts";
import { HttpBench } from "../support/http-bench.ts";
import { eventIdAt } from "../support/status.ts";

const MB = 1_000_000;
/** More megabytes than the operating system and the sidecar buffer for one reader. */
const FLOOD = 48;

function listChanged(index: number): string {
  const params = { index, padding: "p".repeat(MB) };
  return JSON.stringify({ jsonrpc: "2.0", method: "notifications/tools/list_changed", params });
}

function indexOf(message: unknown): number {
  return (message as { params: { index: number } }).params.index;
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
