import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { JsonObject } from "../../../src/jsonrpc/message.ts";
import { LaneBench, type LaneBenchOptions, listen, messages, PrivateLaneBench } from "../support/lane-bench.ts";

/** As the limits of the bench are. */
const REQUEST_TIMEOUT_MS = 1000;
const HOLD_TIMEOUT_MS = 500;

beforeEach(() => {
  vi.useFakeTimers({ now: 0 });
});

afterEach(() => {
  vi.useRealTimers();
});

/** A shared lane whose server is ready. */
function ready(options?: LaneBenchOptions): LaneBench {
  const bench = LaneBench.shared({}, options);
  bench.start();
  return bench;
}

const READ = { method: "resources/read", params: { uri: "x:1" } };
const CALL = { method: "tools/call", params: { name: "look" } };

/** The server says, for as long as it is asked, that these of its tools only read. */
function tellTools(bench: LaneBench, ...names: readonly string[]): void {
  bench.reply("tools/list", { result: { tools: names.map((name) => ({ name, annotations: { readOnlyHint: true } })) } });
}

describe("a request that only reads, of which the server ends before it has answered", () => {
  it("is sent once more to the next one, which answers it under the same id, and counted", () => {
    const bench = ready();
    const call = bench.request(bench.join(), READ);
    const first = bench.heard();
    bench.lose();
    expect([call.outcome, bench.counters.requests.repeated]).toEqual([undefined, 0]);
    bench.start();
    expect(bench.heard()).toEqual(first);
    bench.say({ id: first[0]?.["id"], result: { again: true } });
    expect([call.outcome, bench.counters.requests.repeated, bench.log.messages]).toEqual([{ again: true }, 1, []]);
  });

  it("is sent ahead of what was not sent, and of what came while no server ran", () => {
    const bench = ready();
    const session = bench.join();
    bench.request(session, { ...READ, id: "sent" });
    const [{ id: sent } = {}] = bench.heard();
    bench.upstream.isReading = false;
    bench.request(session, { ...CALL, id: "unread" });
    bench.lose();
    bench.request(session, { ...CALL, id: "later" });
    bench.upstream.isReading = true;
    bench.start();
    expect(bench.heard().map(({ id }) => Number(id) - Number(sent))).toEqual([0, 1, 2]);
  });

  it("fails where that one ends, too", () => {
    const bench = ready();
    const call = bench.request(bench.join(), READ);
    for (let times = 0; times < 2; times++) {
      bench.lose();
      bench.start();
    }
    expect([call.outcome, call.error?.details, bench.counters.requests.repeated]).toEqual([
      "UPSTREAM_EXITED",
      { sent: true, retrySafe: true, exitCode: 1 },
      1,
    ]);
  });

  it("goes on waiting, and is counted once, where that one has not read it", () => {
    const bench = ready();
    const call = bench.request(bench.join(), READ);
    bench.lose();
    bench.upstream.isReading = false;
    bench.start();
    bench.lose();
    bench.upstream.isReading = true;
    bench.start();
    bench.reply("resources/read");
    expect([call.outcome, bench.counters.requests.repeated]).toEqual([{}, 1]);
  });

  it("waits as long as any other, and is then told that it had been sent", () => {
    const bench = ready();
    const call = bench.request(bench.join(), READ);
    vi.advanceTimersByTime(100);
    bench.lose();
    vi.advanceTimersByTime(HOLD_TIMEOUT_MS - 1);
    expect(call.outcome).toBeUndefined();
    vi.advanceTimersByTime(1);
    expect([call.outcome, call.error?.details]).toEqual(["UPSTREAM_NOT_READY", { sent: true, retrySafe: true, retryAfterSeconds: 1 }]);
    expect(call.error?.message).toContain("The request had been sent, but only reads; it is safe to retry.");
    bench.start();
    expect([bench.heard(), bench.counters.requests.repeated]).toEqual([[], 0]);
  });

  it("is told at once where the servers end again and again", () => {
    const bench = ready();
    const [session, call] = [bench.join(), bench.request(bench.join(), READ)];
    bench.lose();
    const held = bench.request(session, READ);
    bench.upstream.isFailed = true;
    bench.lose();
    expect([call.outcome, call.error?.details.sent, held.outcome, held.error?.details.sent]).toEqual([
      "UPSTREAM_FAILED",
      true,
      "UPSTREAM_FAILED",
      false,
    ]);
    expect(call.error?.details.retrySafe).toBe(true);
  });

  it("is told at once, as what was not sent is, where the end of its own server is the last of too many", () => {
    const bench = ready();
    const session = bench.join();
    const call = bench.request(session, READ);
    bench.upstream.isReading = false;
    const unread = bench.request(session, CALL);
    bench.upstream.isFailed = true;
    bench.lose();
    expect([call.outcome, unread.outcome]).toEqual(["UPSTREAM_FAILED", "UPSTREAM_FAILED"]);
  });

  it("has no more time than any other", () => {
    const bench = ready();
    const call = bench.request(bench.join(), READ);
    vi.advanceTimersByTime(REQUEST_TIMEOUT_MS - 1);
    bench.lose();
    bench.start();
    const heard = bench.heard();
    expect(heard).toHaveLength(1);
    vi.advanceTimersByTime(1);
    expect([call.outcome, call.error?.details]).toEqual([
      "REQUEST_TIMEOUT",
      { sent: true, retrySafe: true, timeoutMs: REQUEST_TIMEOUT_MS },
    ]);
    expect(bench.heard()).toEqual([{ method: "notifications/cancelled", params: { requestId: heard[0]?.["id"], reason: "timeout" } }]);
  });

  it("is not repeated once its time is up, though nobody has looked at the clock", () => {
    const bench = ready();
    const call = bench.request(bench.join(), READ);
    vi.setSystemTime(REQUEST_TIMEOUT_MS);
    bench.lose();
    expect(call.outcome).toBe("UPSTREAM_EXITED");
  });

  it("is not repeated where its client has seen progress of it, and is where its client reads none", () => {
    const bench = ready();
    const session = bench.join();
    const request = { ...READ, params: { uri: "x:1", _meta: { progressToken: "t" } } };
    const [seeing, blind] = [bench.request(session, request), bench.request(session, request, false)];
    for (const { id } of bench.heard()) bench.say({ method: "notifications/progress", params: { progressToken: id, progress: 1 } });
    bench.lose();
    expect([seeing.emitted.length, seeing.outcome, blind.outcome]).toEqual([1, "UPSTREAM_EXITED", undefined]);
    bench.start();
    const [{ id } = {}] = bench.heard();
    bench.say({ method: "notifications/progress", params: { progressToken: id, progress: 1 } });
    bench.say({ id, result: {} });
    expect(blind.outcome).toEqual({});
  });

  it("is not repeated in mode off", () => {
    const bench = ready({ retry: "off" });
    const call = bench.request(bench.join(), READ);
    bench.lose();
    expect([call.outcome, call.error?.details.retrySafe]).toEqual(["UPSTREAM_EXITED", true]);
  });

  it.each([
    "ping",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "tasks/get",
  ])("%s only reads and is sent again", (method) => {
    const bench = ready();
    const call = bench.request(bench.join(), { method });
    bench.lose();
    bench.start();
    bench.reply(method);
    expect(call.outcome).toEqual({});
  });

  it.each([
    "tools/call",
    "x-vendor/list",
    "tools/list ",
    "constructor",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "tasks/cancel",
  ])("is none where it is %s", (method) => {
    const bench = ready();
    const call = bench.request(bench.join(), { method, params: { level: "info", uri: "x:1", name: "look" } });
    bench.lose();
    expect(call.outcome).toBe("UPSTREAM_EXITED");
    bench.start();
    expect(bench.heard()).toEqual([]);
  });
});

describe("a request that waits to be sent once more", () => {
  /** A read that was sent, and a server that is gone. */
  function waiting(): { bench: LaneBench; session: ReturnType<LaneBench["join"]>; call: ReturnType<LaneBench["request"]>; id: unknown } {
    const bench = ready();
    const session = bench.join();
    const call = bench.request(session, READ);
    const [{ id } = {}] = bench.heard();
    bench.lose();
    return { bench, session, call, id };
  }

  it("is not sent where its client goes away, and no server is told", () => {
    const { bench, call } = waiting();
    call.onDisconnect?.();
    bench.start();
    expect([bench.heard(), bench.counters.requests.repeated]).toEqual([[], 0]);
  });

  it("is not sent where its client cancels it", () => {
    const { bench, session, call } = waiting();
    bench.notify(session, { method: "notifications/cancelled", params: { requestId: 1 } });
    bench.start();
    expect([call.outcome, bench.heard()]).toEqual(["dismissed", []]);
  });

  it("ends with its session, whose client is told that it had been sent", () => {
    const { bench, session, call } = waiting();
    bench.lane.endSession(session);
    bench.start();
    expect([call.outcome, call.error?.details, bench.heard()]).toEqual(["REQUEST_CANCELLED", { sent: true, retrySafe: true }, []]);
  });

  it("is waited for by a lane that drains, and answered at its end", async () => {
    const { bench, session, call } = waiting();
    const drained = bench.lane.drain();
    expect(bench.request(session, READ).outcome).toBe("SHUTTING_DOWN");
    bench.lane.close();
    await drained;
    expect([call.outcome, call.error?.details, vi.getTimerCount()]).toEqual(["SHUTTING_DOWN", { sent: true, retrySafe: true }, 0]);
  });

  it("is answered while the lane drains, where the next server is ready in time", async () => {
    const { bench, call } = waiting();
    const drained = bench.lane.drain();
    bench.start();
    bench.reply("resources/read");
    await drained;
    expect(call.outcome).toEqual({});
  });

  it("is no answer's that is said before it is sent", () => {
    const { bench, call, id } = waiting();
    bench.say({ id, result: { forged: true } });
    expect([call.outcome, bench.dropped.unknownAnswers]).toEqual([undefined, 1]);
  });

  it("is cancelled at the next server once that has it", () => {
    const { bench, call, id } = waiting();
    bench.start();
    bench.heard();
    call.onDisconnect?.();
    expect(bench.heard()).toEqual([{ method: "notifications/cancelled", params: { requestId: id, reason: "client disconnected" } }]);
  });
});

describe("the question of a private server that ends over a request that only reads", () => {
  it("is taken back on the stream of the request; asked by the next one, it is another question", () => {
    const bench = new PrivateLaneBench();
    bench.start();
    const call = bench.request(bench.session, READ);
    const [{ id: wireId } = {}] = bench.heard();
    bench.say({ id: "q", method: "roots/list" });
    bench.lose();
    bench.start();
    bench.say({ id: "q", method: "roots/list" });
    const [first, , second] = messages(call.emitted).map(({ id }) => Number(id));
    expect(second).toBe((first ?? 0) + 1);
    expect(messages(call.emitted)).toMatchObject([
      { id: first, method: "roots/list" },
      { method: "notifications/cancelled", params: { requestId: first } },
      { id: second, method: "roots/list" },
    ]);
    bench.heard();
    bench.answer({ id: first, result: { late: true } });
    bench.answer({ id: second, result: { roots: [] } });
    expect(bench.heard()).toEqual([{ id: "q", result: { roots: [] } }]);
    bench.say({ id: wireId, result: {} });
    expect(call.outcome).toEqual({});
  });
});

describe("a call of a tool that is marked as read-only", () => {
  function readOnly(...names: readonly string[]): LaneBench {
    const bench = ready({ retry: "read-only" });
    tellTools(bench, ...names);
    return bench;
  }

  it("is sent once more in mode read-only, by what the server that had it had said", () => {
    const bench = readOnly("look");
    const session = bench.join();
    const [look, touch] = [bench.request(session, CALL), bench.request(session, { ...CALL, params: { name: "touch" } })];
    bench.lose();
    expect([look.outcome, touch.outcome, touch.error?.details.retrySafe]).toEqual([undefined, "UPSTREAM_EXITED", false]);
    bench.start();
    bench.reply("tools/call");
    expect(look.outcome).toEqual({});
  });

  it("is told to be safe to retry, where it fails in the end", () => {
    const bench = readOnly("look");
    const session = bench.join();
    const [repeated, timedOut] = [bench.request(session, CALL), bench.request(session, CALL)];
    bench.lose();
    bench.start();
    vi.advanceTimersByTime(HOLD_TIMEOUT_MS);
    bench.lose();
    expect([repeated, timedOut].map(({ error }) => error?.details.retrySafe)).toEqual([true, true]);
    bench.start();
    tellTools(bench, "look");
    const late = bench.request(session, CALL);
    vi.advanceTimersByTime(REQUEST_TIMEOUT_MS);
    expect([late.outcome, late.error?.details.retrySafe]).toEqual(["REQUEST_TIMEOUT", true]);
  });

  it("is not repeated where the server that had it has not said so: as long as the sidecar waits, it is not known", () => {
    const bench = readOnly("look");
    bench.lose();
    bench.start();
    const call = bench.request(bench.join(), CALL);
    bench.lose();
    expect([call.outcome, call.error?.details.retrySafe]).toEqual(["UPSTREAM_EXITED", false]);
  });

  it("is not repeated if another tool of its name, or one with a name of over 1000 characters, is not read-only", () => {
    const bench = ready({ retry: "read-only" });
    const [marked, long] = [{ annotations: { readOnlyHint: true } }, "x".repeat(1001)];
    const tools = [{ name: "a", ...marked }, { name: "b" }, { name: "b", ...marked }, { name: "a" }, { name: long, ...marked }];
    bench.reply("tools/list", { result: { tools: [...tools, { name: "c", ...marked }] } });
    const session = bench.join();
    const calls = ["a", "b", "constructor", long, "c"].map((name) => bench.request(session, { ...CALL, params: { name } }));
    bench.lose();
    expect(calls.map(({ outcome }) => outcome)).toEqual([...calls.slice(1).map(() => "UPSTREAM_EXITED"), undefined]);
  });

  it("is not repeated where the server has said that its tools have changed, and not yet to what", () => {
    const bench = readOnly("look");
    const call = bench.request(bench.join(), CALL);
    bench.say({ method: "notifications/tools/list_changed" });
    bench.lose();
    expect(call.outcome).toBe("UPSTREAM_EXITED");
  });

  it.each(["protocol-reads", "off"] as const)("is not repeated, and no server is asked for its tools, in mode %s", (retry) => {
    const bench = ready({ retry });
    bench.say({ method: "notifications/tools/list_changed" });
    expect(bench.heard()).toEqual([]);
    const call = bench.request(bench.join(), CALL);
    bench.lose();
    expect(call.outcome).toBe("UPSTREAM_EXITED");
  });

  it("is any other call where it names no tool", () => {
    const bench = readOnly("look", "undefined");
    const params: readonly (JsonObject | undefined)[] = [{}, { name: 7 }, { name: ["look"] }, undefined];
    const session = bench.join();
    const calls = params.map((each) => bench.request(session, { method: "tools/call", ...(each === undefined ? {} : { params: each }) }));
    bench.lose();
    expect(calls.map(({ outcome }) => outcome)).toEqual(params.map(() => "UPSTREAM_EXITED"));
  });
});

describe("the sidecar's own request for the tools", () => {
  it("is made of each server, once it is initialized, and again when its tools have changed; never of two servers", () => {
    const bench = ready({ retry: "read-only" });
    const [first, ...others] = bench.heard();
    expect([first?.["method"], others]).toEqual(["tools/list", []]);
    bench.upstream.isReading = false;
    bench.say({ method: "notifications/tools/list_changed" });
    bench.lose();
    bench.say({ method: "notifications/tools/list_changed" });
    bench.upstream.isReading = true;
    bench.start();
    expect(bench.heard()).toMatchObject([{ id: Number(first?.["id"]) + 1, method: "tools/list" }]);
  });

  it("is no private server's before its client has said that it is initialized", () => {
    const bench = new PrivateLaneBench({}, { retry: "read-only" });
    bench.start();
    bench.say({ method: "notifications/tools/list_changed" });
    expect(bench.heard()).toEqual([]);
    bench.notify(bench.session, { method: "notifications/initialized" });
    expect(bench.heard().map(({ method }) => method)).toEqual(["notifications/initialized", "tools/list"]);
    bench.lose();
    bench.start();
    expect(bench.heard().map(({ method }) => method)).toEqual(["tools/list"]);
  });

  it("is nobody's stream, and keeps no message from the one request that runs", () => {
    const bench = new PrivateLaneBench({}, { retry: "read-only" });
    bench.notify(bench.session, { method: "notifications/initialized" });
    bench.start();
    const [stream, call] = [listen(bench.session), bench.request(bench.session, CALL)];
    bench.say({ method: "notifications/message", params: { level: "info", data: "x" } });
    expect([stream.texts, call.emitted.length]).toEqual([[], 1]);
  });

  it("holds up no lane that drains", async () => {
    const bench = ready({ retry: "read-only" });
    await bench.lane.drain();
    bench.lane.close();
    expect(vi.getTimerCount()).toBe(0);
  });
});

it("a long request that only reads is not kept, and not sent again", () => {
  const bench = LaneBench.shared({ maxQueuedBytes: 1_000_000 });
  bench.start();
  const call = bench.request(bench.join(), { ...READ, params: { uri: "x:1", padding: "p".repeat(70_000) } });
  bench.heard();
  bench.lose();
  expect(call.outcome).toBe("UPSTREAM_EXITED");
  expect(call.error?.details).toMatchObject({ sent: true, retrySafe: true });
});
