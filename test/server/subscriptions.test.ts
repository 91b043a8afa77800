import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Session } from "../../src/sessions/session.ts";
import { LaneBench, listen } from "./support/lane-bench.ts";
import { useFakeClock } from "../support/fake-clock.ts";

useFakeClock();

function ask(bench: LaneBench, session: Session, method: "subscribe" | "unsubscribe", uri: string): void {
  bench.request(session, { method: `resources/${method}`, params: { uri } });
}

function update(bench: LaneBench, uri: string): void {
  bench.say({ method: "notifications/resources/updated", params: { uri } });
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
  ])("a subscription of %j gets the update of %s: %j", (subscribed, updated, isDelivered) => {
    const bench = LaneBench.ready();
    const session = bench.join();
    ask(bench, session, "subscribe", subscribed);
    bench.reply("resources/subscribe");
    update(bench, updated);
    expect(listen(session).texts).toHaveLength(isDelivered ? 1 : 0);
  });

  it("an update reaches a session once, however many of its subscriptions match", () => {
    const bench = LaneBench.ready();
    const session = bench.join();
    for (const uri of ["file:///notes", "file:///notes/", "file:///notes/today.md", "file:///"]) {
      ask(bench, session, "subscribe", uri);
      bench.reply("resources/subscribe");
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
            const { uri: asked } = params as { readonly uri: string };
            if (method === "resources/subscribe") atServer.add(asked);
            else atServer.delete(asked);
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
