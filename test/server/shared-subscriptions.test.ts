import * as fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import type { RecordedReply } from "./support/recorded-reply.ts";
import type { Session } from "../../src/session/session.ts";
import { LaneBench, listen } from "./support/lane-bench.ts";
import { useFakeClock } from "../support/fake-clock.ts";

const URI = "file:///notes/today.md";

useFakeClock();

function subscribe(bench: LaneBench, session: Session, uri: unknown = URI, id = 1): RecordedReply {
  return bench.request(session, { id, method: "resources/subscribe", params: { uri } });
}

function subscribed(bench: LaneBench, session: Session, uri = URI): void {
  subscribe(bench, session, uri);
  bench.reply("resources/subscribe");
}

function unsubscribe(bench: LaneBench, session: Session, uri = URI): RecordedReply {
  return bench.request(session, { method: "resources/unsubscribe", params: { uri } });
}

function update(bench: LaneBench, uri: unknown = URI): void {
  bench.say({ method: "notifications/resources/updated", params: { uri } });
}

const MANY = Array.from({ length: 20 }, (_, number) => `x:${number}`);

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

function asked(bench: LaneBench): string[] {
  return bench.heard().map(({ method, params }) => `${String(method)} ${(params as { uri: string }).uri}`);
}

function ask(bench: LaneBench, session: Session, method: "subscribe" | "unsubscribe", uri: string): void {
  bench.request(session, { method: `resources/${method}`, params: { uri } });
}

describe("an update of a resource of a shared server", () => {
  it.each([
    ["file:///notes/today.md", "file:///notes/today.md", true],
    ["file:///notes", "file:///notes/today.md", true],
    ["file:///notes/", "file:///notes/today.md", true],
    ["file:///", "file:///notes/today.md", true],
    ["db://tables/users", "db://tables/users/7", true],
    ["db://tables", "db://tables/users/7", true],
    ["file:///notes/", "file:///notes/", true],
    ["file:///notes", "file:///notes/", true],
    ["file:///notes/today.md", "file:///notes/today.md.bak", false],
    ["file:///notes/today.md", "file:///notes", false],
    ["file:///notes/today.md", "file:///notes/Today.md", false],
    ["file:///note", "file:///notes/today.md", false],
    ["file:///notes/tod", "file:///notes/today.md", false],
    ["db://tables", "file://tables/users", false],
    ["", "file:///notes", false],
    ["/", "file:///notes", false],
  ])("a subscription of %j gets the update of %s: %j", (own, updated, isDelivered) => {
    const bench = LaneBench.ready();
    const session = bench.join();
    subscribed(bench, session, own);
    update(bench, updated);
    expect(listen(session).texts).toHaveLength(isDelivered ? 1 : 0);
  });

  it("an update reaches a session once, however many of its subscriptions match", () => {
    const bench = LaneBench.ready();
    const session = bench.join();
    for (const uri of ["file:///notes", "file:///notes/", "file:///notes/today.md", "file:///"]) {
      subscribed(bench, session, uri);
    }
    const stream = listen(session);
    update(bench, "file:///notes/today.md");
    expect(stream.texts).toHaveLength(1);
  });
});

describe("the subscriptions of a shared server", () => {
  it("the server is subscribed as long as a session is, and updates reach those sessions", () => {
    const uris = ["x:1", "x:2", "x:3"];
    const step = fc.record({
      kind: fc.constantFrom("subscribe", "subscribe", "unsubscribe", "end", "restart"),
      index: fc.nat({ max: 2 }),
      uri: fc.constantFrom(...uris),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const bench = LaneBench.ready();
        const join = () => {
          const session = bench.join();
          return { session, stream: listen(session), own: new Set<string>() };
        };
        const clients = [join(), join(), join()];
        const atServer = new Set<string>();
        for (const { kind, index, uri } of steps) {
          const client = clients[index];
          if (client === undefined) continue;
          if (kind === "subscribe") client.own.add(uri);
          if (kind === "unsubscribe") client.own.delete(uri);
          if (kind === "subscribe" || kind === "unsubscribe") ask(bench, client.session, kind, uri);
          if (kind === "end") {
            bench.lane.endCaller(client.session);
            clients[index] = join();
          }
          if (kind === "restart") {
            bench.lose();
            atServer.clear();
            bench.start();
          }
          for (const { id, method, params } of bench.heard()) {
            const { uri: heard } = params as { readonly uri: string };
            if (method === "resources/subscribe") atServer.add(heard);
            else atServer.delete(heard);
            bench.say({ id, result: {} });
          }
          expect(atServer).toEqual(new Set(clients.flatMap(({ own }) => [...own])));
          for (const each of uris) {
            const before = clients.map(({ stream }) => stream.texts.length);
            update(bench, each);
            const got = clients.map(({ stream }, number) => stream.texts.length - (before[number] ?? 0));
            expect(got).toEqual(clients.map(({ own }) => (own.has(each) ? 1 : 0)));
          }
        }
      }),
    );
  });

  it("the server's subscriptions are those of the sessions, in whatever order requests take their turns", () => {
    const uris = ["x:1", "x:2"];
    const step = fc.record({
      kind: fc.constantFrom("subscribe", "unsubscribe", "call", "answer"),
      index: fc.nat({ max: 2 }),
      uri: fc.constantFrom(...uris),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const bench = LaneBench.ready({ maxInFlight: 1, maxHeldRequests: 100, maxQueuedBytes: 100_000 });
        const clients = [0, 1, 2].map(() => ({ session: bench.join(), own: new Set<string>() }));
        const atServer = new Set<string>();
        const answerNext = (): boolean => {
          const [request] = bench.heard();
          if (request === undefined) return false;
          const { id, method, params } = request;
          if (method === "resources/subscribe") atServer.add((params as { readonly uri: string }).uri);
          if (method === "resources/unsubscribe") atServer.delete((params as { readonly uri: string }).uri);
          bench.say({ id, result: {} });
          return true;
        };
        for (const { kind, index, uri } of steps) {
          const { session, own } = clients[index] ?? { session: bench.join(), own: new Set<string>() };
          if (kind === "answer") answerNext();
          else if (kind === "call") bench.request(session, { method: "x/call" });
          else {
            ask(bench, session, kind, uri);
            own[kind === "subscribe" ? "add" : "delete"](uri);
          }
        }
        while (answerNext());
        expect(atServer).toEqual(new Set(clients.flatMap(({ own }) => [...own])));
        for (const uri of uris) update(bench, uri);
        expect(clients.map(({ session }) => listen(session).texts.length)).toEqual(clients.map(({ own }) => own.size));
      }),
    );
  });
});

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

  it("all subscriptions are restored, however long a slow server takes for all of them", () => {
    const bench = LaneBench.ready({ requestTimeoutMs: 500, holdTimeoutMs: 200 });
    const session = bench.join();
    for (const uri of MANY) subscribed(bench, session, uri);
    bench.lose();
    bench.start();
    const waiting: unknown[] = [];
    const restored: unknown[] = [];
    for (let answers = 0; answers < MANY.length; answers++) {
      waiting.push(...bench.heard());
      const request = waiting.shift() as { readonly id: number; readonly params: object };
      vi.advanceTimersByTime(30);
      restored.push(request.params);
      bench.say({ id: request.id, result: {} });
    }
    expect([restored, bench.log.messages]).toEqual([MANY.map((uri) => ({ uri })), []]);
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
