import { describe, expect, it, afterAll, beforeAll } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import type { EventStream } from "../support/event-stream.ts";
import { readSeen, timeoutFlags, waitForSeen } from "../support/fixture-server.ts";
import { answerOf, HeldCall, progressOf, say } from "../support/held-call.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { countSockets, waitForSockets } from "../support/open-sockets.ts";
import { eventIdAt, readStatus } from "../support/status.ts";
import { Random } from "../../chaos/random.ts";
import { SEED } from "../support/set-up.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { setTimeout as delay } from "node:timers/promises";
import { resultText } from "../support/json-rpc.ts";

describe("resumption", async () => {
  const TOOLS_CHANGED = { jsonrpc: "2.0", method: "notifications/tools/list_changed" };
  const PROMPTS_CHANGED = { jsonrpc: "2.0", method: "notifications/prompts/list_changed" };
  const RESOURCES_CHANGED = { jsonrpc: "2.0", method: "notifications/resources/list_changed" };
  const EVENT_NOT_FOUND = errorReply(400, -32000, "EVENT_NOT_FOUND");

  async function nextEventId(stream: EventStream): Promise<string> {
    await stream.next();
    return stream.lastEventId;
  }

  const sidecar = disposeAfterAll(await HttpBench.start());
  const client = await sidecar.client();

  async function leave(stream: EventStream, { address } = sidecar): Promise<void> {
    const before = countSockets(address);
    stream.close();
    await waitForSockets(address, before - 1);
  }

  it("each further resumption gets the events after its id, and none after the last", async () => {
    const call = await HeldCall.start(client, client);
    await call.progress(1, 2);
    using first = await call.stream;
    const ids = [await nextEventId(first), await nextEventId(first)];
    await leave(first);
    await call.answer();
    const whole = [progressOf(1), progressOf(2), answerOf()];
    let last = "";
    for (const [index, lastEventId] of ids.entries()) {
      for (let time = 0; time < 2; time++) {
        using stream = await client.openStream({ lastEventId });
        expect(await stream.rest()).toEqual(whole.slice(index + 1));
        last = stream.lastEventId;
      }
    }
    const delivered = await client.get({ lastEventId: last });
    expect([delivered.status, delivered.body]).toEqual([204, ""]);
  });

  it("a resumption takes over a stream whose old connection is still open, without duplicates", async () => {
    const call = await HeldCall.start(client, client);
    await call.progress(1);
    using first = await call.stream;
    await first.messages(1);
    using second = await client.openStream({ lastEventId: first.lastEventId });
    expect(await first.rest()).toEqual([]);
    await call.progress(2);
    expect(await second.messages(1)).toEqual([progressOf(2)]);
    using third = await client.openStream({ lastEventId: second.lastEventId });
    expect(await second.rest()).toEqual([]);
    await call.answer();
    expect(await third.rest()).toEqual([answerOf()]);
    expect(await readSeen(client)).not.toContain(`notifications/cancelled ${call.wireId}`);
  });

  it("a resumption gets the messages of its own stream and no other", async () => {
    const calls: HeldCall[] = [];
    const lastEventIds: string[] = [];
    for (let id = 0; id < 10; id++) {
      const call = await HeldCall.start(client, client, { id, token: `token ${id}` });
      await call.progress(1);
      const stream = await call.stream;
      await stream.messages(1);
      calls.push(call);
      lastEventIds.push(stream.lastEventId);
      stream.close();
    }
    for (const call of calls) await call.progress(2);
    await say(client, JSON.stringify(TOOLS_CHANGED));
    const streams = await Promise.all(lastEventIds.map((lastEventId) => client.openStream({ lastEventId })));
    for (const call of calls) await call.answer(`answer ${call.id}`);
    for (const [id, stream] of streams.entries()) {
      expect(await stream.rest()).toEqual([progressOf(2, `token ${id}`), answerOf(`answer ${id}`, id)]);
    }
    using standalone = await client.openStream();
    expect(await standalone.messages(1)).toEqual([TOOLS_CHANGED]);
  });

  it("a resumed GET stream gets each message sent to a lost connection once", async () => {
    const own = await sidecar.client();
    using lost = await own.openStream();
    await say(client, JSON.stringify(RESOURCES_CHANGED));
    await lost.next();
    // The sidecar sends these to the connection, but the client's last event id is older.
    await say(client, JSON.stringify(TOOLS_CHANGED), JSON.stringify(PROMPTS_CHANGED));
    using resumed = await own.openStream({ lastEventId: lost.lastEventId });
    expect(await resumed.messages(2)).toEqual([TOOLS_CHANGED, PROMPTS_CHANGED]);
    await leave(resumed);
    await say(client, JSON.stringify(PROMPTS_CHANGED));
    using again = await own.openStream({ lastEventId: resumed.lastEventId });
    expect(await again.messages(1)).toEqual([PROMPTS_CHANGED]);
    await own.end();
    expect(await again.rest()).toEqual([]);
  });

  it("an empty id, as before a client's first event, opens a new stream", async () => {
    const own = await sidecar.client();
    using stream = await own.openStream({ lastEventId: "" });
    await say(own, JSON.stringify(TOOLS_CHANGED));
    expect(await stream.messages(1)).toEqual([TOOLS_CHANGED]);
  });

  it.each([
    "garbage",
    "0",
    "r1",
    "s-1",
    "r1-1-1",
    "r1-x",
    "R1-1",
    "r01-1 ",
    "r0-0",
    "s0-1",
    "r999-1",
    "s999-1",
    "r1-99999999999999999",
    "%00",
    "é",
  ])("an id that the session never issued is rejected: %j", async (lastEventId) => {
    const own = await sidecar.client();
    for (const id of [lastEventId, await eventIdAt(sidecar, lastEventId)]) {
      expect(readError(await own.get({ lastEventId: id }))).toStrictEqual(EVENT_NOT_FOUND);
    }
  });

  it("an id not sent yet, or of the other kind of stream, is rejected", async () => {
    const own = await sidecar.client();
    const call = await HeldCall.start(own, client);
    await call.progress(1);
    using stream = await call.stream;
    const id = await nextEventId(stream);
    expect(id).toMatch(new RegExp(`^${await eventIdAt(sidecar, "r1-1")}-[\\w-]+$`));
    for (const position of ["r1-2", "s1-1", "r1-100"]) {
      expect(readError(await own.get({ lastEventId: await eventIdAt(sidecar, position) }))).toStrictEqual(EVENT_NOT_FOUND);
    }
    await call.answer();
    expect(await stream.rest()).toEqual([answerOf()]);
    expect(readError(await own.get({ lastEventId: await eventIdAt(sidecar, "r1-3") }))).toStrictEqual(EVENT_NOT_FOUND);
  });

  describe("a client that disconnects", async () => {
    const quiet = disposeAfterAll(await HttpBench.start({ flags: ["--stream-after-ms", "1"] }));
    const control = await quiet.client({ accept: "application/json" });

    /** Starts a call whose response is a stream, and disconnects before any message. Returns when the sidecar has noticed. */
    async function leaveSilentStream(own: McpClient): Promise<{ readonly call: HeldCall; readonly lastEventId: string }> {
      const call = await HeldCall.start(own, control);
      const stream = await call.stream;
      expect(stream.headers["content-type"]).toBe("text/event-stream");
      if (own.protocolVersion === "2025-11-25") await stream.block();
      await leave(stream, quiet);
      return { call, lastEventId: stream.lastEventId };
    }

    it.each(["2025-06-18", "2025-03-26", "2024-11-05"])(
      "a client without an event id (%s) cancels its call by disconnecting",
      async (version) => {
        const own = await quiet.client({ protocolVersion: version });
        const { call } = await leaveSilentStream(own);
        await waitForSeen(control, `notifications/cancelled ${call.wireId}`);
        expect(await quiet.waitForLog("request given up", (line) => line["requestId"] === call.wireId)).toMatchObject({
          reason: "client disconnected",
        });
      },
    );

    it("a client with an event id can reconnect, and its response is kept", async () => {
      const own = await quiet.client();
      const { call, lastEventId } = await leaveSilentStream(own);
      await call.answer();
      expect(await readSeen(control)).not.toContain(`notifications/cancelled ${call.wireId}`);
      using resumed = await own.openStream({ lastEventId });
      expect(await resumed.rest()).toEqual([answerOf()]);
    });

    it("a disconnected client can cancel its call and still read earlier messages", async () => {
      const own = await quiet.client();
      const call = await HeldCall.start(own, control);
      await call.progress(1, 2);
      const stream = await call.stream;
      await stream.messages(1);
      await leave(stream, quiet);
      expect((await own.notify("notifications/cancelled", { requestId: 7 })).status).toBe(202);
      await waitForSeen(control, `notifications/cancelled ${call.wireId}`);
      using resumed = await own.openStream({ lastEventId: stream.lastEventId });
      expect(await resumed.rest()).toEqual([progressOf(2)]);
      expect((await own.get({ lastEventId: resumed.lastEventId })).status).toBe(204);
    });

    it("a call of a client that never reconnects times out and frees its slot", async () => {
      await using impatient = await HttpBench.start({ flags: ["--stream-after-ms", "1", ...timeoutFlags(1000), "--max-in-flight", "1"] });
      const own = await impatient.client();
      using stream = await own.begin("hang", {}, 7);
      await stream.block();
      stream.close();
      await impatient.waitForLog("request given up", (line) => line["reason"] === "timeout");
      expect(await own.toolText("echo", { text: "free" })).toBe("free");
      using resumed = await own.openStream({ lastEventId: stream.lastEventId });
      expect(await resumed.rest()).toMatchObject([{ id: 7, error: { data: { code: "REQUEST_TIMEOUT", sent: true } } }]);
    });

    it("a client that reconnects and disconnects again loses no message", async () => {
      const own = await quiet.client();
      const { call, lastEventId } = await leaveSilentStream(own);
      const resumed = await own.openStream({ lastEventId });
      await leave(resumed, quiet);
      await call.progress(1);
      await call.answer();
      using again = await own.openStream({ lastEventId });
      expect(await again.rest()).toEqual([progressOf(1), answerOf()]);
      expect(await readSeen(control)).not.toContain(`notifications/cancelled ${call.wireId}`);
    });
  });
});

describe("clients that reconnect at any time", () => {
  const CLIENTS = 10;
  const BROADCASTS = 200;
  const CALLS = 3;

  function createRandom(seed: number): (limit: number) => number {
    const random = new Random(seed);
    return (limit) => random.below(limit);
  }

  function numbered(number: number): string {
    return JSON.stringify({ jsonrpc: "2.0", method: "notifications/tools/list_changed", params: { number } });
  }

  /** Clients that lose their connections repeatedly, at random points. Half of the connections are closed, half stay half-open. */
  let sidecar: RunningSidecar;
  const abandoned: EventStream[] = [];
  beforeAll(async () => {
    sidecar = await HttpBench.start({ flags: ["--keep-alive-ms", "3"] });
  });
  afterAll(async () => {
    for (const stream of abandoned) stream.close();
    await sidecar[Symbol.asyncDispose]();
  });

  async function openClient(index: number): Promise<McpClient> {
    return sidecar.client({ protocolVersion: index % 2 === 0 ? "2025-11-25" : "2025-06-18" });
  }

  function lose(stream: EventStream, isHalfOpen: boolean): void {
    if (isHalfOpen) abandoned.push(stream);
    else stream.close();
  }

  async function listen(client: McpClient, first: EventStream, random: (limit: number) => number): Promise<number[]> {
    const numbers: number[] = [];
    let stream = first;
    for (;;) {
      // At least one: without priming, a client has no id before its first message.
      const messages = await stream.messages(Math.min(1 + random(10), BROADCASTS - numbers.length));
      numbers.push(...messages.map((message) => Number(message.params?.["number"])));
      lose(stream, random(2) === 0);
      if (numbers.length >= BROADCASTS || messages.length === 0) return numbers;
      stream = await client.openStream({ lastEventId: stream.lastEventId });
    }
  }

  async function call(client: McpClient, steps: number, random: (limit: number) => number): Promise<unknown[]> {
    let stream = await client.begin("progress", { steps }, 7, { progressToken: "mine" });
    const messages: unknown[] = [];
    for (;;) {
      const part = await stream.messages(Math.min(1 + random(50), steps + 1 - messages.length));
      messages.push(...part);
      lose(stream, random(2) === 0);
      if (messages.length > steps || part.length === 0) return messages;
      stream = await client.openStream({ lastEventId: stream.lastEventId });
    }
  }

  it.each([SEED, SEED + 1, SEED + 2])("each client gets all its messages in order, once (seed %i)", async (seed) => {
    const control = await sidecar.client();
    const listeners = await Promise.all(
      Array.from({ length: CLIENTS }, async (_, index) => {
        const client = await openClient(index);
        return { client, stream: await client.openStream(), random: createRandom(seed * 100 + index) };
      }),
    );
    const listening = listeners.map(({ client, stream, random }) => listen(client, stream, random));
    const calling = Array.from({ length: CLIENTS }, async (_, index) => {
      const random = createRandom(seed * 1000 + index);
      const client = await openClient(index);
      for (let count = 0; count < CALLS; count++) {
        const steps = 1 + random(300);
        const expected = Array.from({ length: steps }, (_each, step) => progressOf(step + 1));
        expect(await call(client, steps, random)).toEqual([...expected, answerOf()]);
      }
    });
    for (let number = 1; number <= BROADCASTS; number += 2) await say(control, numbered(number), numbered(number + 1));
    await Promise.all(calling);
    const expected = Array.from({ length: BROADCASTS }, (_, index) => index + 1);
    for (const numbers of await Promise.all(listening)) expect(numbers).toEqual(expected);
  });
});

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
