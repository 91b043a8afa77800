import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import type { EventStream } from "../support/event-stream.ts";
import { readSeen, timeoutFlags, waitForSeen } from "../support/fixture-server.ts";
import { answerOf, HeldCall, progressOf, say } from "../support/held-call.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { McpClient } from "../support/mcp-client.ts";
import { countSockets, waitForSockets } from "../support/open-sockets.ts";
import { eventIdAt } from "../support/status.ts";

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
