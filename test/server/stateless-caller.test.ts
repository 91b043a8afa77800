import { describe, expect, it, vi } from "vitest";
import type { Caller } from "../../src/sessions/caller.ts";
import { LaneBench, messages } from "./support/lane-bench.ts";
import { StatelessCaller } from "./support/stateless-caller.ts";
import { useFakeClock } from "../support/fake-clock.ts";

const CALL = { method: "tools/call", params: { name: "x" } };

useFakeClock();

function log(data: string): { readonly method: string; readonly params: object } {
  return { method: "notifications/message", params: { level: "error", data } };
}

/** Sets the log level of a caller, which the server confirms. */
function setLevel(bench: LaneBench, caller: Caller, level: string): void {
  bench.request(caller, { method: "logging/setLevel", params: { level } });
  bench.reply("logging/setLevel");
}

describe("a client without a session", () => {
  it("its request reaches the server and is answered with its own id", () => {
    const bench = LaneBench.ready();
    const call = bench.request(new StatelessCaller(), { id: "own", ...CALL });
    bench.reply("tools/call", { result: { done: true } });
    expect(call.response).toBe('{"jsonrpc":"2.0","id":"own","result":{"done":true}}');
  });

  it("its requests above MAX_SESSION_REQUESTS are rejected", () => {
    const bench = LaneBench.ready({ maxSessionRequests: 1 });
    const [caller, other] = [new StatelessCaller("a"), new StatelessCaller("b")];
    const calls = [caller, caller, other].map((each) => bench.request(each, CALL));
    expect(calls.map(({ outcome }) => outcome)).toEqual([undefined, "SESSION_OVERLOADED", undefined]);
    expect([caller.callsInFlight, other.callsInFlight]).toEqual([1, 1]);
  });

  it("its request waits for a slot and takes turns with sessions", () => {
    const bench = LaneBench.ready({ maxInFlight: 1 });
    const session = bench.join();
    for (const id of [1, 2, 3]) bench.request(session, { id, method: `x/session-${id}` });
    bench.request(new StatelessCaller(), { method: "x/stateless" });
    const order: unknown[] = [];
    for (let [request] = bench.heard(); request !== undefined; [request] = bench.heard()) {
      order.push(request["method"]);
      bench.say({ id: request["id"], result: {} });
    }
    expect(order).toEqual(["x/session-1", "x/session-2", "x/stateless", "x/session-3"]);
  });

  it("its requests are counted", () => {
    const bench = LaneBench.ready();
    bench.request(new StatelessCaller(), CALL);
    bench.reply("tools/call");
    expect(bench.counters.requests.accepted).toBe(1);
    expect(bench.counters.answers.results).toBe(1);
  });

  it("the timeout of its request counts for an unresponsive server", () => {
    const bench = LaneBench.ready({ hungTimeouts: 1 });
    const call = bench.request(new StatelessCaller(), CALL);
    vi.advanceTimersByTime(1000);
    expect(call.outcome).toBe("REQUEST_TIMEOUT");
    // The time of a ping.
    vi.advanceTimersByTime(1000);
    expect(bench.upstream.restartReasons).toHaveLength(1);
  });

  it("a drain waits for its request", async () => {
    const bench = LaneBench.ready();
    const caller = new StatelessCaller();
    const call = bench.request(caller, CALL);
    let isDrained = false;
    const drained = bench.lane.drain().then(() => (isDrained = true));
    expect(bench.request(caller, CALL).outcome).toBe("SHUTTING_DOWN");
    await Promise.resolve();
    expect(isDrained).toBe(false);
    bench.reply("tools/call");
    await drained;
    expect(call.outcome).toEqual({});
  });

  it("its queued request survives a restart, and its sent request fails with UPSTREAM_EXITED", () => {
    const bench = LaneBench.ready({ maxInFlight: 1 });
    const caller = new StatelessCaller();
    const [sent, queued] = [bench.request(caller, CALL), bench.request(caller, { ...CALL, id: 2 })];
    bench.lose();
    bench.start();
    bench.reply("tools/call");
    expect([sent.outcome, queued.outcome]).toEqual(["UPSTREAM_EXITED", {}]);
  });

  it("its log messages stop while a session has calls in flight as well", () => {
    const bench = LaneBench.ready();
    const [caller, session] = [new StatelessCaller(), bench.join()];
    setLevel(bench, caller, "info");
    const call = bench.request(caller, CALL);
    bench.say(log("its own"));
    bench.request(session, CALL);
    bench.say(log("secret"));
    expect([messages(call.emitted), caller.delivered]).toEqual([[log("its own")], []]);
  });
});

describe("the end of a client without a session", () => {
  it("its requests are cancelled", () => {
    const bench = LaneBench.ready({ maxInFlight: 1 });
    const [caller, other] = [new StatelessCaller("a"), new StatelessCaller("b")];
    const calls = [caller, caller, other].map((each) => bench.request(each, CALL));
    bench.lane.endCaller(caller);
    expect(calls.map(({ outcome }) => outcome)).toEqual(["REQUEST_CANCELLED", "REQUEST_CANCELLED", undefined]);
    expect(bench.heard().map(({ method }) => method)).toEqual(["tools/call", "notifications/cancelled", "tools/call"]);
    expect(caller.callsInFlight).toBe(0);
  });

  it("its log level no longer counts", () => {
    const bench = LaneBench.ready();
    const [caller, session] = [new StatelessCaller(), bench.join()];
    setLevel(bench, session, "error");
    setLevel(bench, caller, "debug");
    bench.lane.endCaller(caller);
    expect(bench.heard()).toMatchObject([{ method: "logging/setLevel", params: { level: "error" } }]);
    const call = bench.request(caller, CALL);
    bench.say(log("late"));
    expect([call.emitted, caller.delivered]).toEqual([[], []]);
  });

  it("its subscriptions end", () => {
    const bench = LaneBench.ready();
    const caller = new StatelessCaller();
    bench.request(caller, { method: "resources/subscribe", params: { uri: "x:1" } });
    bench.reply("resources/subscribe");
    const update = { method: "notifications/resources/updated", params: { uri: "x:1" } };
    bench.say(update);
    bench.lane.endCaller(caller);
    expect(bench.heard()).toMatchObject([{ method: "resources/unsubscribe", params: { uri: "x:1" } }]);
    bench.say(update);
    expect(messages(caller.delivered)).toEqual([update]);
  });
});
