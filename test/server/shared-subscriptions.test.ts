import { describe, expect, it } from "vitest";
import type { RecordedExchange } from "./support/recorded-exchange.ts";
import type { Session } from "../../src/sessions/session.ts";
import { LaneBench, listen } from "./support/lane-bench.ts";
import { useFakeClock } from "../support/fake-clock.ts";

const URI = "file:///notes/today.md";

useFakeClock();

function subscribe(bench: LaneBench, session: Session, uri: unknown = URI, id = 1): RecordedExchange {
  return bench.request(session, { id, method: "resources/subscribe", params: { uri } });
}

/** Subscribes the session, which the server confirms. */
function subscribed(bench: LaneBench, session: Session, uri = URI): void {
  subscribe(bench, session, uri);
  bench.reply("resources/subscribe");
}

function unsubscribe(bench: LaneBench, session: Session, uri = URI): RecordedExchange {
  return bench.request(session, { method: "resources/unsubscribe", params: { uri } });
}

function update(bench: LaneBench, uri: unknown = URI): void {
  bench.say({ method: "notifications/resources/updated", params: { uri } });
}

const MANY = Array.from({ length: 20 }, (_, number) => `x:${number}`);

/** Returns the requests that the server gets, in short, and answers all of them. */
function askedUntilAnswered(bench: LaneBench): string[] {
  const all: string[] = [];
  for (let requests = bench.heard(); requests.length > 0; requests = bench.heard()) {
    for (const { id, method, params } of requests) {
      all.push(`${String(method)} ${(params as { uri: string }).uri}`);
      bench.say({ id, result: {} });
    }
  }
  return all;
}

/** Returns the requests that the server got, in short. */
function asked(bench: LaneBench): string[] {
  return bench.heard().map(({ method, params }) => `${String(method)} ${(params as { uri: string }).uri}`);
}

describe("a subscription at a shared server", () => {
  it("a confirmed subscription stays if a second request for it fails or is cancelled", () => {
    const bench = LaneBench.ready();
    const [a, b] = [bench.join(), bench.join()];
    for (const session of [a, b]) for (const id of [1, 2]) subscribe(bench, session, URI, id);
    const [first, second, third] = bench.heard();
    bench.say({ id: first?.["id"], result: {} });
    bench.say({ id: second?.["id"], error: { code: -32_603, message: "again?" } });
    bench.say({ id: third?.["id"], result: {} });
    bench.notify(b, { method: "notifications/cancelled", params: { requestId: 2 } });
    update(bench);
    expect([a, b].map((session) => listen(session).texts.length)).toEqual([1, 1]);
    expect([unsubscribe(bench, a).outcome, unsubscribe(bench, b).outcome]).toEqual([{}, undefined]);
  });

  it("a subscription that was answered at once outlives the same session's failed request", () => {
    const bench = LaneBench.ready();
    const [a, b] = [bench.join(), bench.join()];
    for (const session of [a, b]) subscribe(bench, session);
    const [ofA, ofB] = bench.heard();
    bench.say({ id: ofB?.["id"], result: {} });
    expect(subscribe(bench, a).outcome).toEqual({});
    bench.say({ id: ofA?.["id"], error: { code: -32_603, message: "?" } });
    update(bench);
    expect(listen(a).texts).toHaveLength(1);
  });

  it("a session has at most 1024 subscriptions", () => {
    const bench = LaneBench.ready({ maxInFlight: 10_000, maxQueuedBytes: 1_000_000 });
    const [greedy, other] = [bench.join(), bench.join()];
    for (let number = 0; number < 1024; number++) subscribed(bench, greedy, `x:${number}`);
    expect([subscribe(bench, greedy, "x:one more").outcome, asked(bench)]).toEqual([-32_000, []]);
    expect(subscribe(bench, other, "x:1").outcome).toEqual({});
    unsubscribe(bench, greedy, "x:7");
    subscribe(bench, greedy, "x:one more");
    expect(asked(bench)).toEqual(["resources/unsubscribe x:7", "resources/subscribe x:one more"]);
  });

  it("all subscriptions are restored at each new server, ahead of queued requests", () => {
    const bench = LaneBench.ready({ maxHeldRequests: 3 });
    const session = bench.join();
    const uris = ["x:1", "x:2", "x:3", "x:4", "x:5"];
    for (const uri of uris) subscribed(bench, session, uri);
    bench.lose();
    const held = [1, 2, 3].map((number) => bench.request(session, { method: "resources/read", params: { uri: `y:${number}` } }));
    bench.start();
    // Before the queued requests, which may rely on it.
    expect(asked(bench)).toEqual([
      ...uris.map((uri) => `resources/subscribe ${uri}`),
      ...["y:1", "y:2", "y:3"].map((uri) => `resources/read ${uri}`),
    ]);
    expect([held.map(({ outcome }) => outcome), bench.log.messages]).toEqual([[undefined, undefined, undefined], []]);
  });

  it("subscriptions are restored 16 at a time, and once if that server exits", () => {
    const bench = LaneBench.ready();
    const session = bench.join();
    for (const uri of MANY) subscribed(bench, session, uri);
    bench.lose();
    bench.start();
    expect(asked(bench)).toEqual(MANY.slice(0, 16).map((uri) => `resources/subscribe ${uri}`));
    bench.lose();
    bench.start();
    expect(askedUntilAnswered(bench)).toEqual(MANY.map((uri) => `resources/subscribe ${uri}`));
  });

  it("a restored subscription that is no longer wanted is neither made nor ended", () => {
    const bench = LaneBench.ready();
    const [a, b] = [bench.join(), bench.join()];
    for (const uri of MANY) subscribed(bench, a, uri);
    bench.lose();
    bench.start();
    bench.lane.endCaller(a);
    subscribe(bench, b, "x:0");
    const all = askedUntilAnswered(bench);
    expect(all.filter((each) => each.startsWith("resources/subscribe")).toSorted()).toEqual(
      [...MANY.slice(0, 16), "x:0"].map((uri) => `resources/subscribe ${uri}`).toSorted(),
    );
    expect(all.filter((each) => each.startsWith("resources/unsubscribe"))).toEqual(
      MANY.slice(1).map((uri) => `resources/unsubscribe ${uri}`),
    );
  });

  it("a subscription in flight at the exit fails and is not restored", () => {
    const bench = LaneBench.ready();
    const session = bench.join();
    const call = subscribe(bench, session);
    bench.lose();
    expect(call.outcome).toBe("UPSTREAM_EXITED");
    bench.start();
    expect(asked(bench)).toEqual([]);
  });
});
