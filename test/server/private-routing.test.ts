import { describe, expect, it } from "vitest";
import { listen, messages, PrivateLaneBench } from "./support/lane-bench.ts";
import { useFakeClock } from "../support/fake-clock.ts";

useFakeClock();

const SAMPLING = { id: "s-1", method: "sampling/createMessage", params: { messages: [] } };
const LOG = { method: "notifications/message", params: { level: "info", data: "x" } };
const CHANGED = { method: "notifications/tools/list_changed" };

describe("a message of a private server", () => {
  it.each([SAMPLING, LOG, { method: "notifications/tasks/status", params: {} }, { method: "notifications/custom" }])(
    "the message %j goes to the stream of the only request in flight",
    (message) => {
      const bench = PrivateLaneBench.ready();
      const [stream, call] = [listen(bench.session), bench.request(bench.session, { method: "tools/call" })];
      bench.say(message);
      expect([stream.texts, call.emitted.length]).toEqual([[], 1]);
    },
  );

  it("a message goes to the GET stream if several requests are in flight", () => {
    const bench = PrivateLaneBench.ready();
    const [older, newer] = [listen(bench.session), listen(bench.session)];
    const calls = [1, 2].map((id) => bench.request(bench.session, { id, method: "tools/call" }));
    bench.say(SAMPLING);
    expect([older.texts, newer.texts.length, calls.map(({ emitted }) => emitted)]).toEqual([[], 1, [[], []]]);
  });

  it("a message goes to the oldest streaming request if no GET stream is open", () => {
    const bench = PrivateLaneBench.ready();
    const plain = bench.request(bench.session, { id: 1, method: "tools/call" }, false);
    const calls = [2, 3].map((id) => bench.request(bench.session, { id, method: "tools/call" }));
    bench.say(SAMPLING);
    expect([plain.emitted, calls.map(({ emitted }) => emitted.length)]).toEqual([[], [1, 0]]);
  });

  it("a message goes to the GET stream if no request in flight reads a stream", () => {
    const bench = PrivateLaneBench.ready();
    const stream = listen(bench.session);
    bench.say(LOG);
    bench.request(bench.session, { method: "tools/call" }, false);
    bench.say(LOG);
    expect(stream.texts).toHaveLength(2);
  });

  it("a message goes to a connected request rather than an older disconnected one", () => {
    const bench = PrivateLaneBench.ready();
    const [gone, listening] = [1, 2].map((id) => bench.request(bench.session, { id, method: "tools/call" }));
    if (gone !== undefined) gone.isConnected = false;
    bench.say(SAMPLING);
    expect([gone, listening].map((call) => call?.emitted.length)).toEqual([0, 1]);
  });

  it("a message goes to the GET stream if the request has lost its connection", () => {
    const bench = PrivateLaneBench.ready();
    const call = bench.request(bench.session, { method: "tools/call" });
    call.isConnected = false;
    bench.say(LOG);
    expect(call.emitted).toHaveLength(1);
    const stream = listen(bench.session);
    bench.say(LOG);
    expect([call.emitted.length, stream.texts.length]).toEqual([1, 1]);
  });

  it("a message waits for a GET stream if no stream is open", () => {
    const bench = PrivateLaneBench.ready();
    const plain = bench.request(bench.session, { method: "tools/call" }, false);
    bench.say(SAMPLING);
    bench.say(LOG);
    expect([plain.emitted, messages(listen(bench.session).texts).map(({ method }) => method)]).toEqual([[], [SAMPLING.method, LOG.method]]);
  });

  it("a message does not go to a request that the server has not read", () => {
    const bench = PrivateLaneBench.ready();
    bench.upstream.isReading = false;
    const call = bench.request(bench.session, { method: "tools/call" });
    bench.say(LOG);
    expect([call.emitted, listen(bench.session).texts.length]).toEqual([[], 1]);
  });

  it.each(["tools/list_changed", "prompts/list_changed", "resources/list_changed", "resources/updated"])(
    "the notification %s goes to no request and waits once",
    (name) => {
      const bench = PrivateLaneBench.ready();
      const call = bench.request(bench.session, { method: "tools/call" });
      for (let count = 0; count < 3; count++) bench.say({ method: `notifications/${name}`, params: { uri: "x:1" } });
      expect([call.emitted, listen(bench.session).texts.length]).toEqual([[], 1]);
    },
  );

  it("a message is carried byte for byte", () => {
    const bench = PrivateLaneBench.ready();
    const stream = listen(bench.session);
    const text = '{"params":{"data":9007199254740993,"x":1.0 },"method":"notifications/message","jsonrpc":"2.0"}';
    bench.say(text);
    expect(stream.texts).toEqual([text]);
  });

  it("a message is delivered exactly once, whatever streams open and close", () => {
    const bench = PrivateLaneBench.ready();
    const call = bench.request(bench.session, { method: "tools/call" });
    bench.say({ ...LOG, params: { level: "info", data: 1 } });
    bench.request(bench.session, { id: 2, method: "tools/call" }, false);
    bench.say({ ...LOG, params: { level: "info", data: 2 } });
    const stream = listen(bench.session);
    bench.say({ ...LOG, params: { level: "info", data: 3 } });
    bench.reply("tools/call");
    bench.say({ ...LOG, params: { level: "info", data: 4 } });
    const data = (texts: readonly string[]): unknown[] => messages(texts).map(({ params }) => (params as { data: number }).data);
    expect([data(call.emitted), data(stream.texts)]).toEqual([[1, 2, 4], [3]]);
  });

  it("a message after the end of the session leaves nothing behind", () => {
    const bench = PrivateLaneBench.ready();
    bench.lane.endCaller(bench.session);
    bench.session.streams.close();
    for (const message of [SAMPLING, LOG, CHANGED]) bench.say(message);
    expect(bench.eventLog.size).toBe(0);
  });
});

describe("a message of a private client", () => {
  it("a request is carried with a new id and token", () => {
    const bench = PrivateLaneBench.ready();
    const call = bench.request(bench.session, {
      id: "a",
      method: "tasks/list",
      params: { _meta: { progressToken: "t" }, task: { ttl: 1 } },
    });
    const [{ id, params } = {}] = bench.heard();
    expect([typeof id, params]).toEqual(["number", { _meta: { progressToken: id }, task: { ttl: 1 } }]);
    bench.say({ method: "notifications/progress", params: { progressToken: id, progress: 1 } });
    bench.say({ id, result: { tasks: [] } });
    expect([messages(call.emitted), call.response]).toEqual([
      [{ method: "notifications/progress", params: { progressToken: "t", progress: 1 } }],
      '{"jsonrpc":"2.0","id":"a","result":{"tasks":[]}}',
    ]);
  });

  it.each(["logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/list"])("the server answers %s itself", (method) => {
    const bench = PrivateLaneBench.ready();
    const call = bench.request(bench.session, { method, params: { uri: "x:1", level: "info" } });
    bench.reply(method, { result: { own: true } });
    expect(call.outcome).toEqual({ own: true });
  });

  it("a notification is carried unchanged, roots/list_changed too", () => {
    const bench = PrivateLaneBench.ready();
    bench.notify(bench.session, { method: "notifications/roots/list_changed" });
    bench.notify(bench.session, { method: "notifications/custom", params: { n: 1 } });
    expect(bench.heard()).toEqual([{ method: "notifications/roots/list_changed" }, { method: "notifications/custom", params: { n: 1 } }]);
  });

  it("notifications/initialized is kept for later servers and sent to the running one", () => {
    const bench = PrivateLaneBench.ready();
    bench.notify(bench.session, { method: "notifications/initialized", params: { x: 1 } });
    expect(bench.heard()).toEqual([{ method: "notifications/initialized", params: { x: 1 } }]);
    expect(bench.initialized).toEqual(['{"jsonrpc":"2.0","method":"notifications/initialized","params":{"x":1}}']);
  });

  it("notifications/initialized is rejected while the server reads nothing, and not kept", () => {
    const bench = PrivateLaneBench.ready({ maxQueuedBytes: 200 }, { retry: "read-only", isInitialized: false });
    const text = '{"jsonrpc":"2.0","method":"notifications/initialized"}';
    bench.upstream.isReading = false;
    for (let id = 0; id < 10; id++) bench.say({ id, method: "ping" });
    expect(bench.dropped.requests).toBeGreaterThan(0);
    expect([bench.notify(bench.session, text), bench.initialized]).toEqual(["OVERLOADED", []]);
    bench.lose();
    bench.upstream.isReading = true;
    bench.start({ tools: {} });
    expect(bench.heard()).toEqual([]);
    expect([bench.notify(bench.session, text), bench.initialized]).toEqual([undefined, [text]]);
    expect(bench.heard().map(({ method }) => method)).toEqual(["notifications/initialized", "tools/list"]);
  });

  it("notifications/initialized reaches the server while held requests fill MAX_QUEUED_BYTES", () => {
    const bench = PrivateLaneBench.ready({ maxInFlight: 1, maxQueuedBytes: 200 });
    for (const text of ["x", "x".repeat(300)]) bench.request(bench.session, { method: "tools/call", params: { text } });
    expect(bench.request(bench.session, { method: "tools/call" }).outcome).toBe("OVERLOADED");
    bench.heard();
    expect(bench.notify(bench.session, { method: "notifications/initialized" })).toBeUndefined();
    expect(bench.heard()).toEqual([{ method: "notifications/initialized" }]);
  });

  it("a request before notifications/initialized, which another replica may have got, is sent after one", () => {
    const bench = PrivateLaneBench.ready({}, { isInitialized: false });
    bench.request(bench.session, { method: "ping" });
    expect(bench.heard().map(({ method }) => method)).toEqual(["ping"]);
    for (const _ of [1, 2]) bench.request(bench.session, { method: "tools/list" });
    expect(bench.heard().map(({ method }) => method)).toEqual(["notifications/initialized", "tools/list", "tools/list"]);
    expect(bench.initialized).toHaveLength(1);
  });

  it("notifications/initialized is not sent before the server is ready", () => {
    const bench = PrivateLaneBench.ready();
    bench.lose();
    // The next generation is in its handshake.
    bench.spawn();
    bench.notify(bench.session, { method: "notifications/initialized" });
    bench.start();
    expect([bench.initialized.length, bench.heard()]).toEqual([1, []]);
  });

  it("a cancellation reaches the server with the id that the server knows", () => {
    const bench = PrivateLaneBench.ready();
    const call = bench.request(bench.session, { id: "a", method: "tools/call" });
    const [{ id } = {}] = bench.heard();
    bench.notify(bench.session, { method: "notifications/cancelled", params: { requestId: "a", reason: "enough" } });
    expect([call.outcome, bench.heard()]).toEqual([
      "dismissed",
      [{ method: "notifications/cancelled", params: { requestId: id, reason: "enough" } }],
    ]);
  });
});
