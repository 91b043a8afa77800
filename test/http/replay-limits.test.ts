import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { readError } from "../support/error-reply.ts";
import type { EventStream } from "../support/event-stream.ts";
import { answerOf, HeldCall, progressOf, say } from "../support/held-call.ts";
import { resultText } from "../support/json-rpc.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { countSockets, waitForSockets } from "../support/open-sockets.ts";
import { HttpBench } from "../support/http-bench.ts";
import { readStatus } from "../support/status.ts";

const MB = 1_000_000;

function listChanged(index: number, length = 0): object {
  return { jsonrpc: "2.0", method: "notifications/tools/list_changed", params: { index, padding: "p".repeat(length) } };
}

function indexOf(message: unknown): unknown {
  return (message as { params: { index: number } }).params.index;
}

/** Opens a GET stream whose client reads only the first event, so that later ones count as missed. */
async function openUnreadable(client: McpClient): Promise<EventStream> {
  await say(client, JSON.stringify(listChanged(0)));
  const stream = await client.openStream();
  await stream.next();
  return stream;
}

async function replayed(client: McpClient, lastEventId: string, control: McpClient): Promise<unknown[]> {
  using stream = await client.openStream({ lastEventId });
  // Replayed events precede new ones.
  await say(control, JSON.stringify(listChanged(-1)));
  const indexes: unknown[] = [];
  while (indexes.at(-1) !== -1) indexes.push(...(await stream.messages(1)).map(indexOf));
  return indexes.slice(0, -1);
}

describe("the events kept for replay", () => {
  it("the last --replay-max-events of each stream are kept", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--replay-max-events", "3"] });
    const [first, second, control] = [await sidecar.client(), await sidecar.client(), await sidecar.client()];
    using firstStream = await openUnreadable(first);
    using secondStream = await openUnreadable(second);
    for (let index = 1; index <= 5; index++) await say(control, JSON.stringify(listChanged(index)));
    expect(await replayed(first, firstStream.lastEventId, control)).toEqual([3, 4, 5]);
    expect(await replayed(second, secondStream.lastEventId, control)).toContain(5);
  });

  it("messages that wait for a first stream are kept within the same limits", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--replay-max-events", "3"] });
    const [client, control] = [await sidecar.client(), await sidecar.client()];
    for (let index = 1; index <= 5; index++) await say(control, JSON.stringify(listChanged(index)));
    using stream = await client.openStream();
    expect((await stream.messages(3)).map(indexOf)).toEqual([3, 4, 5]);
  });

  it("the response is always kept, regardless of its length and earlier events", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--replay-max-events", "1", "--replay-max-bytes", "1000"] });
    const client = await sidecar.client();
    const call = await HeldCall.start(client, client);
    await call.progress(1);
    using lost = await call.stream;
    await lost.block();
    await call.progress(2, 3);
    const text = "t".repeat(MB);
    await call.answer(text);
    using resumed = await client.openStream({ lastEventId: lost.lastEventId });
    const messages = await resumed.rest();
    expect(messages).toHaveLength(1);
    expect(messages.map(resultText)).toEqual([text]);
  });

  it("all streams together keep --replay-max-bytes, of which one may use a quarter", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--replay-max-bytes", String(8 * MB)] });
    const control = await sidecar.client();
    const clients = await Promise.all(Array.from({ length: 5 }, () => sidecar.client()));
    const streams = await Promise.all(clients.map(openUnreadable));
    // Each session gets ten messages of half a megabyte. A quarter holds three of them; five sessions need more than the total.
    for (let index = 1; index <= 10; index++) await say(control, JSON.stringify(listChanged(index, 500_000)));
    const kept: number[] = [];
    for (const [index, client] of clients.entries()) {
      const indexes = await replayed(client, streams[index]?.lastEventId ?? "", control);
      kept.push(indexes.length);
      expect(indexes).toEqual([8, 9, 10].slice(3 - indexes.length));
    }
    expect(Math.max(...kept)).toBe(3);
    expect(kept.reduce((sum, count) => sum + count) * 500_000).toBeLessThanOrEqual(8 * MB);
    for (const stream of streams) stream.close();
  });

  it("after --replay-max-age-ms, a resumption fails unless the client has had all events", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--replay-max-age-ms", "6000"] });
    const client = await sidecar.client();
    const call = await HeldCall.start(client, client);
    await call.progress(1);
    using lost = await call.stream;
    await lost.block();
    lost.close();
    await call.answer();
    const { lastEventId } = lost;
    using resumed = await client.openStream({ lastEventId });
    expect(await resumed.rest()).toEqual([progressOf(1), answerOf()]);
    const comeBack = (eventId: string) => client.get({ lastEventId: eventId });
    let reply = await comeBack(lastEventId);
    while (reply.status === 200) reply = await comeBack(lastEventId);
    expect(readError(reply)).toMatchObject({ status: 400, body: { error: { data: { code: "EVENT_NOT_FOUND" } } } });
    expect((await comeBack(resumed.lastEventId)).status).toBe(204);
  });

  it("all events are replayed to a client that missed more than a slow reader may", async () => {
    await using sidecar = await HttpBench.start({
      flags: ["--replay-max-bytes", String(400 * MB), "--memory-budget-bytes", String(1600 * MB)],
    });
    const [client, control] = [await sidecar.client(), await sidecar.client()];
    using lost = await openUnreadable(client);
    const { lastEventId } = lost;
    for (let index = 1; index <= 40; index++) {
      await say(control, JSON.stringify(listChanged(index, MB)));
      // Read, so that the connection lives, but not acknowledged.
      await lost.messages(1);
    }
    expect(await replayed(client, lastEventId, control)).toEqual(Array.from({ length: 40 }, (_, index) => index + 1));
  });
});

describe("a GET stream without kept events", () => {
  it("the stream can be resumed from its last event id without loss", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--replay-max-age-ms", "3000"] });
    const [client, control] = [await sidecar.client(), await sidecar.client()];
    const before = countSockets(sidecar.address);
    using old = await client.openStream();
    for (let index = 1; index <= 3; index++) await say(control, JSON.stringify(listChanged(index)));
    await old.messages(3);
    old.close();
    await waitForSockets(sidecar.address, before);
    const { lastEventId } = old;
    while (Number((await readStatus(sidecar)).memory["replay"]) > 0) await delay(10);
    using unread = await client.openStream({ lastEventId });
    expect(unread.status).toBe(200);
    await say(control, JSON.stringify(listChanged(4)), JSON.stringify(listChanged(5)));
    using again = await client.openStream({ lastEventId });
    await say(control, JSON.stringify(listChanged(6)));
    expect((await again.messages(3)).map(indexOf)).toEqual([4, 5, 6]);
  });

  it("a stream that is resumed from an earlier event uses no event id again", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--replay-max-age-ms", "1"] });
    const [client, control] = [await sidecar.client(), await sidecar.client()];
    const before = countSockets(sidecar.address);
    using old = await client.openStream();
    const ids: string[] = [];
    for (let index = 1; index <= 3; index++) {
      await say(control, JSON.stringify(listChanged(index)));
      await old.messages(1);
      ids.push(old.lastEventId);
    }
    old.close();
    await waitForSockets(sidecar.address, before);
    while (Number((await readStatus(sidecar)).memory["replay"]) > 0) await delay(10);
    using resumed = await client.openStream({ lastEventId: ids[0] ?? "" });
    await say(control, JSON.stringify(listChanged(4)));
    expect((await resumed.messages(1)).map(indexOf)).toEqual([4]);
    expect(ids).not.toContain(resumed.lastEventId);
  });
});
