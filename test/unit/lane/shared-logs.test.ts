import { describe, expect, it, vi } from "vitest";
import type { Session } from "../../../src/sessions/session.ts";
import { useFakeClock } from "../support/fake-clock.ts";
import { LaneBench, listen } from "../support/lane-bench.ts";

/** The time for which an abandoned request without a response may still run at the server. */
const GIVEN_UP_MS = 5 * 60_000;
const TASK = { result: { task: { taskId: "t", status: "working" } } };

useFakeClock();

function log(level: string): { readonly method: string; readonly params: object } {
  return { method: "notifications/message", params: { level, data: "x" } };
}

function setLevel(level: string): { readonly method: string; readonly params: object } {
  return { method: "logging/setLevel", params: { level } };
}

/** A request of this session, which its client cancels. */
function abandon(bench: LaneBench, session: Session, id: number): void {
  bench.request(session, { id, method: "tools/call" });
  bench.notify(session, { method: "notifications/cancelled", params: { requestId: id } });
}

/** A lane in which session `b` wants logs, and the call of an ended session awaits its late response. */
function withAbandonedCall(): { readonly bench: LaneBench; readonly b: Session } {
  const bench = LaneBench.ready();
  const [a, b] = [bench.join(), bench.join()];
  bench.request(b, setLevel("info"));
  bench.reply("logging/setLevel");
  bench.request(a, { method: "tools/call" });
  bench.lane.endCaller(a);
  return { bench, b };
}

describe("a log message of a shared server", () => {
  it("a message is dropped while no session has asked for any", () => {
    const bench = LaneBench.ready();
    const session = bench.join();
    const stream = listen(session);
    bench.say(log("emergency"));
    expect([stream.texts, bench.dropped.notifications]).toEqual([[], 1]);
  });

  it("the server gets the most verbose requested level, and only changes of it", () => {
    const bench = LaneBench.ready();
    const [a, b, c] = [bench.join(), bench.join(), bench.join()];
    const set = bench.request(a, setLevel("warning"));
    bench.reply("logging/setLevel");
    expect(set.outcome).toEqual({});
    expect(bench.request(b, setLevel("error")).outcome).toEqual({});
    expect(bench.heard()).toEqual([]);
    bench.request(c, setLevel("debug"));
    bench.reply("logging/setLevel");
    bench.lane.endCaller(c);
    expect(bench.heard()).toMatchObject([setLevel("warning")]);
  });

  it("each new generation gets the level that sessions still want", () => {
    const bench = LaneBench.ready();
    const [a, b] = [bench.join(), bench.join()];
    bench.request(a, setLevel("debug"));
    bench.reply("logging/setLevel");
    bench.request(b, setLevel("error"));
    bench.lose();
    bench.lane.endCaller(a);
    bench.start();
    expect(bench.heard()).toMatchObject([setLevel("error")]);
  });

  it("a message is dropped and counted while no request is in flight", () => {
    const bench = LaneBench.ready();
    const [a, b] = [bench.join(), bench.join()];
    bench.request(a, setLevel("debug"));
    bench.reply("logging/setLevel");
    bench.request(b, setLevel("debug"));
    bench.request(a, { method: "tools/call" });
    bench.reply("tools/call");
    bench.say(log("critical"));
    expect([listen(a).texts, listen(b).texts, bench.dropped.notifications]).toEqual([[], [], 1]);
  });

  it("the only request gets the message on its stream if its session wants it", () => {
    const bench = LaneBench.ready();
    const [a, b] = [bench.join(), bench.join()];
    for (const session of [a, b]) bench.request(session, setLevel("info"));
    bench.reply("logging/setLevel");
    const [streamOfA, streamOfB] = [listen(a), listen(b)];
    const call = bench.request(a, { method: "tools/call" });
    bench.say(log("info"));
    bench.say(log("debug"));
    expect([call.emitted.length, streamOfA.texts, streamOfB.texts]).toEqual([1, [], []]);
  });

  it("several requests in flight of one session get the message on its GET stream", () => {
    const bench = LaneBench.ready();
    const session = bench.join();
    bench.request(session, setLevel("info"));
    bench.reply("logging/setLevel");
    const stream = listen(session);
    const plain = bench.request(session, { method: "tools/call" }, false);
    bench.say(log("info"));
    expect(stream.texts).toHaveLength(1);
    const other = bench.request(session, { method: "tools/call" });
    bench.say(log("info"));
    expect([stream.texts.length, plain.emitted, other.emitted]).toEqual([2, [], []]);
  });

  it("a message is dropped while requests of several sessions are in flight", () => {
    const bench = LaneBench.ready();
    const [a, b] = [bench.join(), bench.join()];
    bench.request(a, setLevel("info"));
    bench.reply("logging/setLevel");
    const calls = [a, b].map((session) => bench.request(session, { method: "tools/call" }));
    bench.say(log("error"));
    expect([listen(a).texts, calls.map(({ emitted }) => emitted), bench.dropped.notifications]).toEqual([[], [[], []], 1]);
  });

  it("a session that was answered before gets no message of the request in flight", () => {
    const bench = LaneBench.ready();
    const [a, b] = [bench.join(), bench.join()];
    bench.request(a, setLevel("info"));
    bench.reply("logging/setLevel");
    bench.request(b, setLevel("info"));
    bench.request(a, { method: "tools/call" });
    bench.reply("tools/call");
    const call = bench.request(b, { method: "tools/call" });
    bench.say(log("info"));
    expect([call.emitted.length, listen(a).texts, listen(b).texts]).toEqual([1, [], []]);
  });

  it("queued requests that were not sent do not count as in flight", () => {
    const bench = LaneBench.shared({ maxInFlight: 1 });
    bench.start();
    const [a, b] = [bench.join(), bench.join()];
    bench.request(a, setLevel("info"));
    bench.reply("logging/setLevel");
    const calls = [a, b].map((session) => bench.request(session, { method: "tools/call" }));
    bench.say(log("info"));
    expect(calls.map(({ emitted }) => emitted.length)).toEqual([1, 0]);
  });

  it("a message is dropped while the server may still run another session's abandoned request", () => {
    const { bench, b } = withAbandonedCall();
    const call = bench.request(b, { method: "tools/call", params: { name: "x" } });
    bench.say(log("error"));
    expect([call.emitted, listen(b).texts, bench.dropped.notifications]).toEqual([[], [], 1]);
  });

  it("the only session gets messages again after the late response", () => {
    const { bench, b } = withAbandonedCall();
    bench.reply("tools/call");
    const call = bench.request(b, { method: "tools/call" });
    bench.say(log("error"));
    expect([call.emitted.length, bench.dropped.notifications]).toEqual([1, 0]);
  });

  it("the only session gets messages again when no late response can be expected", () => {
    const { bench, b } = withAbandonedCall();
    vi.advanceTimersByTime(GIVEN_UP_MS + 1);
    const call = bench.request(b, { method: "tools/call" });
    bench.say(log("error"));
    expect(call.emitted).toHaveLength(1);
  });

  it("a session gets messages even if its own earlier request was abandoned", () => {
    const bench = LaneBench.ready();
    const session = bench.join();
    bench.request(session, setLevel("info"));
    bench.reply("logging/setLevel");
    bench.request(session, { id: 7, method: "tools/call" });
    bench.notify(session, { method: "notifications/cancelled", params: { requestId: 7 } });
    const call = bench.request(session, { id: 8, method: "tools/call" });
    bench.say(log("error"));
    expect(call.emitted).toHaveLength(1);
  });

  it("a thousand abandoned requests of one session do not hide that of another", () => {
    const { bench, b } = withAbandonedCall();
    for (let id = 0; id < 1000; id++) abandon(bench, b, id);
    const call = bench.request(b, { method: "tools/call" });
    bench.say(log("error"));
    expect([call.emitted, bench.dropped.notifications]).toEqual([[], 1]);
    vi.advanceTimersByTime(GIVEN_UP_MS + 1);
    const later = bench.request(b, { method: "tools/call" });
    bench.say(log("error"));
    expect(later.emitted).toHaveLength(1);
  });

  it("forgotten requests of a lost server do not count for the next one", () => {
    const { bench, b } = withAbandonedCall();
    for (let id = 0; id < 1000; id++) abandon(bench, b, id);
    bench.lose();
    bench.start();
    const call = bench.request(b, { method: "tools/call" });
    bench.say(log("error"));
    expect(call.emitted).toHaveLength(1);
  });

  it("a session that has ended, or whose level was rejected, gets no message", () => {
    const bench = LaneBench.ready();
    const [a, b] = [bench.join(), bench.join()];
    const set = bench.request(a, setLevel("info"));
    bench.reply("logging/setLevel", { error: { code: -32_601, message: "no logging" } });
    expect(set.outcome).toBe(-32_601);
    bench.request(b, setLevel("info"));
    bench.reply("logging/setLevel");
    bench.lane.endCaller(b);
    const call = bench.request(a, { method: "tools/call" });
    bench.say(log("emergency"));
    expect([call.emitted, listen(a).texts, listen(b).texts, bench.dropped.notifications]).toEqual([[], [], [], 1]);
  });

  it("a session keeps its former level if the server rejects a new one", () => {
    const bench = LaneBench.ready();
    const session = bench.join();
    bench.request(session, setLevel("error"));
    bench.reply("logging/setLevel");
    bench.request(session, setLevel("debug"));
    bench.reply("logging/setLevel", { error: { code: -32_603, message: "?" } });
    const call = bench.request(session, { method: "tools/call" });
    bench.say(log("info"));
    bench.say(log("critical"));
    expect(call.emitted).toHaveLength(1);
  });

  it("the level is sent again with the next request if the server's level is uncertain", () => {
    const bench = LaneBench.ready();
    const [a, b] = [bench.join(), bench.join()];
    bench.request(a, setLevel("info"));
    bench.reply("logging/setLevel");
    bench.request(b, setLevel("debug"));
    bench.reply("logging/setLevel", { error: { code: -32_603, message: "?" } });
    expect(bench.request(b, setLevel("error")).outcome).toEqual({});
    expect(bench.heard()).toMatchObject([setLevel("info")]);
  });

  it("a level that a client sets meanwhile overrides the sidecar's queued one", () => {
    const bench = LaneBench.ready();
    const [a, b, c] = [bench.join(), bench.join(), bench.join()];
    bench.request(a, setLevel("info"));
    bench.request(b, setLevel("error"));
    for (let number = 0; number < 20; number++) {
      bench.request(c, { method: "resources/subscribe", params: { uri: `x:${number}` } });
      bench.reply("resources/subscribe");
    }
    bench.lane.endCaller(c);
    bench.lane.endCaller(a);
    expect(bench.request(b, setLevel("debug")).isFinished).toBe(false);
    const asked = bench.heard();
    expect(asked.at(-1)).toMatchObject(setLevel("debug"));
    for (const { id } of asked) bench.say({ id, result: {} });
    expect(bench.heard().filter(({ method }) => method === "logging/setLevel")).toEqual([]);
  });

  it("a late level of one session does not replace the more verbose one of another", () => {
    const bench = LaneBench.ready({ maxInFlight: 1 });
    const [a, b] = [bench.join(), bench.join()];
    for (const method of ["x/one", "x/two"]) bench.request(a, { method });
    const calls = [bench.request(a, setLevel("error")), bench.request(b, setLevel("debug"))];
    const levels: unknown[] = [];
    for (let [request] = bench.heard(); request !== undefined; [request] = bench.heard()) {
      if (request["method"] === "logging/setLevel") levels.push(request["params"]);
      bench.say({ id: request["id"], result: { by: "server" } });
    }
    expect(levels).toEqual([{ level: "debug" }]);
    expect(calls.map(({ outcome }) => outcome)).toEqual([{}, { by: "server" }]);
  });

  it("the server decides about a level that does not exist", () => {
    const bench = LaneBench.ready();
    const call = bench.request(bench.join(), setLevel("verbose"));
    bench.reply("logging/setLevel", { error: { code: -32_602, message: "no such level" } });
    expect(call.outcome).toBe(-32_602);
  });
});

describe("a log message while a task may run at a shared server", () => {
  /** The session `a` has a task, and `b` wants log messages. */
  function withTask(meta: object = {}): { readonly bench: LaneBench; readonly a: Session; readonly b: Session } {
    const bench = LaneBench.ready();
    const [a, b] = [bench.join(), bench.join()];
    for (const session of [a, b]) bench.request(session, setLevel("info"));
    bench.reply("logging/setLevel");
    bench.request(a, { method: "tools/call", params: { task: {}, ...meta } });
    bench.reply("tools/call", TASK);
    return { bench, a, b };
  }

  /** Returns the number of messages that the only call in flight gets, and of those that are dropped. */
  function logDuringCallOf(session: Session, bench: LaneBench): [received: number, dropped: number] {
    const before = bench.dropped.notifications;
    const call = bench.request(session, { method: "tools/call" });
    bench.say(log("error"));
    bench.reply("tools/call");
    return [call.emitted.length, bench.dropped.notifications - before];
  }

  it.each([{}, { _meta: { progressToken: "own" } }])("a message is dropped while another session has a task: %j", (meta) => {
    const { bench, b } = withTask(meta);
    expect(logDuringCallOf(b, bench)).toEqual([0, 1]);
    vi.advanceTimersByTime(2 * GIVEN_UP_MS);
    expect(logDuringCallOf(b, bench)).toEqual([0, 1]);
  });

  it("a session with a task gets the messages of its only call", () => {
    const { bench, a } = withTask();
    expect(logDuringCallOf(a, bench)).toEqual([1, 0]);
  });

  it("a thousand newer tasks do not hide the task of another session", () => {
    const { bench, b } = withTask({ _meta: { progressToken: "own" } });
    for (let count = 0; count < 1025; count++) {
      bench.request(b, { method: "tools/call", params: { task: {}, _meta: { progressToken: "p" } } });
      bench.reply("tools/call", TASK);
    }
    expect(logDuringCallOf(b, bench)).toEqual([0, 1]);
  });

  it("a task counts for five minutes after the end of its session", () => {
    const { bench, a, b } = withTask();
    bench.lane.endCaller(a);
    vi.advanceTimersByTime(GIVEN_UP_MS);
    expect(logDuringCallOf(b, bench)).toEqual([0, 1]);
    vi.advanceTimersByTime(1);
    expect(logDuringCallOf(b, bench)).toEqual([1, 0]);
  });

  it("a task that begins with a late response counts for five minutes", () => {
    const { bench, b } = withAbandonedCall();
    bench.reply("tools/call", TASK);
    vi.advanceTimersByTime(GIVEN_UP_MS);
    expect(logDuringCallOf(b, bench)).toEqual([0, 1]);
    vi.advanceTimersByTime(1);
    expect(logDuringCallOf(b, bench)).toEqual([1, 0]);
  });

  it("a task of a lost server does not count for the next one", () => {
    const { bench, a, b } = withTask();
    bench.lane.endCaller(a);
    bench.lose();
    bench.start();
    expect(logDuringCallOf(b, bench)).toEqual([1, 0]);
  });
});
