import { describe, expect, it, vi } from "vitest";
import type { Config } from "../../src/config/load.ts";
import type { Session } from "../../src/session/session.ts";
import { LaneBench } from "./support/lane-bench.ts";
import type { RecordedReply } from "./support/recorded-reply.ts";
import { useFakeClock } from "../support/fake-clock.ts";
import { AMPLE_MEMORY } from "./support/memory.ts";

useFakeClock();

const ROOMY = { maxHeldRequests: 1000, maxQueuedBytes: 10_000_000 };

function startShared(limits: Partial<Config>): LaneBench {
  const bench = LaneBench.ready({ ...ROOMY, ...limits });
  return bench;
}

function request(bench: LaneBench, session: Session, ...names: readonly string[]): RecordedReply[] {
  return names.map((name) => bench.request(session, { id: name, method: `x/${name}` }));
}

/** Returns the server's input since the last look: names of requests and notifications, and its unanswered ids. */
function hear(bench: LaneBench): { readonly names: string[]; readonly ids: unknown[] } {
  const heard = bench.heard();
  return {
    names: heard.map(({ method }) => String(method).replace("x/", "")),
    ids: heard.flatMap(({ id }) => (id === undefined ? [] : [id])),
  };
}

function heardNames(bench: LaneBench): string[] {
  return hear(bench).names;
}

const outcomes = (replies: readonly RecordedReply[]): unknown[] => replies.map(({ outcome }) => outcome);

describe("requests beyond MAX_IN_FLIGHT", () => {
  it.each<[string, (bench: LaneBench, running: { session: Session; reply: RecordedReply; id: unknown }) => void, string[]]>([
    ["answered", (bench, { id }) => bench.say({ id, result: {} }), []],
    ["answered with an error", (bench, { id }) => bench.say({ id, error: { code: 1, message: "no" } }), []],
    [
      "answered with too much",
      (bench, { id }) =>
        bench.lane.onOverlongLine({
          kind: "overlong",
          bytes: 2000,
          idText: String(id),
          hasMethod: false,
          isForMemory: false,
        }),
      [],
    ],
    [
      "cancelled",
      (bench, { session }) => bench.notify(session, { method: "notifications/cancelled", params: { requestId: "running" } }),
      ["notifications/cancelled"],
    ],
    ["left by its client", (_bench, { reply }) => reply.disconnect(), ["notifications/cancelled"]],
    ["ended with its session", (bench, { session }) => bench.lane.endCaller(session), ["notifications/cancelled"]],
    ["out of time", () => vi.advanceTimersByTime(499), ["notifications/cancelled"]],
  ])("a queued request is sent if the request in flight is %s", (_how, end, before) => {
    const bench = startShared({ maxInFlight: 1, holdTimeoutMs: 5000 });
    const session = bench.join();
    const [reply] = request(bench, session, "running");
    const [id] = hear(bench).ids;
    vi.advanceTimersByTime(501);
    const [waiting] = request(bench, bench.join(), "waiting");
    if (reply === undefined) throw new Error("nothing runs");
    end(bench, { session, reply, id });
    expect(heardNames(bench)).toEqual([...before, "waiting"]);
    expect(waiting?.isFinished).toBe(false);
  });

  it("a queued request of the longest queue is rejected to make room for another session", () => {
    const bench = startShared({ maxInFlight: 1, maxHeldRequests: 3 });
    const flood = request(bench, bench.join(), "1", "2", "3", "4");
    const [other] = request(bench, bench.join(), "other");
    expect(outcomes(flood)).toEqual([undefined, undefined, undefined, "OVERLOADED"]);
    expect([flood[3]?.error?.details.sent, other?.isFinished]).toEqual([false, false]);
    expect(bench.counters.toJSON()).toMatchObject({ requests: { accepted: 5, refused: {} }, answers: { failures: { OVERLOADED: 1 } } });
  });

  it("queued requests do not delay pings, cancellations and the sidecar's own requests", () => {
    const bench = startShared({ maxInFlight: 1 });
    const subscriber = bench.join();
    bench.request(subscriber, { method: "resources/subscribe", params: { uri: "x:1" } });
    bench.reply("resources/subscribe");
    const [running] = request(bench, bench.join(), "running", "waiting", "waiting too");
    heardNames(bench);
    bench.say({ id: 9, method: "ping" });
    bench.lane.endCaller(subscriber);
    running?.disconnect();
    expect(bench.heard()).toMatchObject([
      { id: 9, result: {} },
      { method: "resources/unsubscribe" },
      { method: "notifications/cancelled" },
      { method: "x/waiting" },
    ]);
  });

  it("20,000 expired requests time out without a stack overflow", () => {
    const bench = startShared({ maxInFlight: 1, maxHeldRequests: 100_000, maxSessionRequests: 100_000, holdTimeoutMs: 1001 });
    const [running] = request(bench, bench.join(), "running");
    const session = bench.join();
    const replies = Array.from({ length: 20_000 }, (_, id) => bench.request(session, { id, method: "x/waiting" }));
    // The timer is late: all have timed out when the slot becomes free.
    vi.setSystemTime(2000);
    running?.disconnect();
    expect(new Set(outcomes(replies))).toEqual(new Set(["REQUEST_TIMEOUT"]));
    expect(new Set(heardNames(bench))).toEqual(new Set(["running", "notifications/cancelled"]));
  });
});

describe("notifications", () => {
  it("a notification that waited for a server in vain is counted and never sent", () => {
    const bench = startShared({});
    const session = bench.join();
    bench.lose();
    bench.notify(session, { method: "x/in vain" });
    vi.advanceTimersByTime(499);
    bench.notify(session, { method: "x/in time" });
    vi.advanceTimersByTime(1);
    expect(bench.dropped.clientNotifications).toBe(1);
    bench.start();
    expect([heardNames(bench), bench.dropped.clientNotifications]).toEqual([["in time"], 1]);
  });

  it("a notification takes no slot, and stays behind the requests of its session only", () => {
    const bench = startShared({ maxInFlight: 1 });
    const [session, other] = [bench.join(), bench.join()];
    request(bench, session, "1", "2");
    bench.notify(session, { method: "x/behind 2" });
    request(bench, session, "3");
    bench.notify(session, { method: "x/behind 3" });
    bench.notify(other, { method: "x/of another" });
    const { names, ids } = hear(bench);
    expect(names).toEqual(["1", "of another"]);
    bench.say({ id: ids[0], result: {} });
    expect(heardNames(bench)).toEqual(["2", "behind 2"]);
  });

  it("a notification is sent when the request before it is given up", () => {
    const bench = startShared({ maxInFlight: 1, holdTimeoutMs: 500 });
    const session = bench.join();
    const [, cancelled] = request(bench, session, "running", "cancelled");
    bench.notify(session, { method: "x/behind" });
    cancelled?.disconnect();
    expect(heardNames(bench)).toEqual(["running", "behind"]);
    request(bench, session, "waits too long");
    bench.notify(session, { method: "x/behind that" });
    vi.advanceTimersByTime(500);
    expect(heardNames(bench)).toEqual(["behind that"]);
  });
});

describe("a server that becomes ready", () => {
  it("a ready server gets MAX_IN_FLIGHT requests and the notifications behind them", () => {
    const bench = LaneBench.shared({ ...ROOMY, maxInFlight: 2 });
    const [a, b] = [bench.join(), bench.join()];
    request(bench, a, "a1", "a2", "a3");
    request(bench, b, "b1");
    bench.notify(b, { method: "x/behind b1" });
    bench.start();
    const { names, ids } = hear(bench);
    expect(names).toEqual(["a1", "b1", "behind b1"]);
    for (const id of ids) bench.say({ id, result: {} });
    expect(heardNames(bench)).toEqual(["a2", "a3"]);
    expect(bench.counters.requests.held).toBe(4);
  });

  it("a ready server gets unread requests before queued ones, within MAX_IN_FLIGHT", () => {
    const bench = startShared({ maxInFlight: 3 });
    const session = bench.join();
    bench.upstream.isReading = false;
    const replies = request(bench, session, "1", "2", "3", "4");
    bench.notify(session, { method: "x/behind 4" });
    bench.lose();
    request(bench, session, "5");
    bench.upstream.isReading = true;
    bench.start();
    expect(heardNames(bench)).toEqual(["1", "2", "3"]);
    expect(outcomes(replies)).toEqual(Array(4).fill(undefined));
    expect(bench.counters.requests).toMatchObject({ accepted: 5, held: 2 });
  });
});

describe("messages that take no slot", () => {
  const NOTIFICATION = { method: "notifications/x" };

  it("notifications that an ended server has not read leave no memory in use", () => {
    const before = AMPLE_MEMORY.status.requests;
    const bench = LaneBench.ready();
    const session = bench.join();
    bench.upstream.isReading = false;
    expect(bench.notify(session, NOTIFICATION)).toBeUndefined();
    expect(AMPLE_MEMORY.status.requests).toBeGreaterThan(before);
    bench.lane.close();
    bench.lose();
    expect(bench.notify(session, NOTIFICATION)).toBe("UPSTREAM_NOT_READY");
    expect(AMPLE_MEMORY.status.requests).toBe(before);
  });
});

it("a call is answered, although the end of the call that was evicted for it opens another subscription", () => {
  const bench = LaneBench.shared({ maxInFlight: 1, maxHeldRequests: 3, maxQueuedBytes: 100_000 });
  bench.start({ resources: { subscribe: true, listChanged: true } }, "2026-07-28", "modern");
  const [busy, other, last] = [bench.join(), bench.join(), bench.join()];
  const send = (session: Session, method: string, params: object): RecordedReply => bench.request(session, { method, params });
  /** Acknowledges subscriptions. Returns the ids of the calls that the server has read. */
  const serve = (): unknown[] =>
    bench.heard().flatMap(({ id, method, params }) => {
      const meta = { "io.modelcontextprotocol/subscriptionId": id };
      if (method === "subscriptions/listen")
        bench.say({ method: "notifications/subscriptions/acknowledged", params: { ...(params as object), _meta: meta } });
      return method === "tools/call" ? [id] : serve();
    });
  send(other, "resources/subscribe", { uri: "test:other" });
  serve();
  for (const name of ["a", "b", "c"]) send(busy, "tools/call", { name });
  send(busy, "resources/subscribe", { uri: "test:busy" });
  send(other, "resources/unsubscribe", { uri: "test:other" });
  const running = serve();
  const reply = send(last, "tools/call", { name: "d" });
  for (let ids = running; ids.length > 0; ids = serve()) for (const id of ids) bench.say({ id, result: {} });
  expect(reply.outcome).toEqual({});
});
