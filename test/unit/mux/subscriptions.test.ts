import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Session } from "../../../src/mux/session.ts";
import { Subscriptions } from "../../../src/mux/subscriptions.ts";
import { newSession } from "../support/sessions.ts";

const URI = "file:///notes/today.md";
const [a, b, c] = [newSession(), newSession(), newSession()];

function subscribers(subscriptions: Subscriptions, uri = URI): Session[] {
  return [...subscriptions.subscribers(uri)];
}

describe("the subscriptions of a shared server", () => {
  it("ask the server for the first session, and for no other once it has said yes", () => {
    const subscriptions = new Subscriptions();
    expect(subscriptions.add(a, URI)).toBe(true);
    subscriptions.confirm(URI);
    expect([subscriptions.add(b, URI), subscriptions.add(a, URI)]).toEqual([false, false]);
    expect(subscribers(subscriptions)).toEqual([a, b]);
  });

  it("ask the server for each session as long as it has not said yes, so that each has an answer of the server", () => {
    const subscriptions = new Subscriptions();
    expect([subscriptions.add(a, URI), subscriptions.add(b, URI)]).toEqual([true, true]);
    subscriptions.confirm(URI);
    expect(subscriptions.add(c, URI)).toBe(false);
  });

  it("tell the server of the last session that leaves, and of no other", () => {
    const subscriptions = new Subscriptions();
    for (const session of [a, b]) subscriptions.add(session, URI);
    subscriptions.confirm(URI);
    expect([subscriptions.delete(a, URI), subscribers(subscriptions)]).toEqual([false, [b]]);
    expect([subscriptions.delete(b, URI), subscribers(subscriptions)]).toEqual([true, []]);
    expect(subscriptions.add(c, URI)).toBe(true);
  });

  it("never end another session's subscription for one that has none", () => {
    const subscriptions = new Subscriptions();
    subscriptions.add(a, URI);
    expect([subscriptions.delete(b, URI), subscribers(subscriptions)]).toEqual([false, [a]]);
  });

  it("let the server answer for a resource that nobody is subscribed to", () => {
    expect(new Subscriptions().delete(a, URI)).toBe(true);
  });

  it("are none where the server said no, and stay for those it has said yes to", () => {
    const subscriptions = new Subscriptions();
    subscriptions.add(a, URI);
    subscriptions.delete(a, URI);
    subscriptions.confirm(URI);
    expect([subscribers(subscriptions), subscriptions.countOf(a), subscriptions.add(b, URI)]).toEqual([[], 0, true]);
  });

  it("are counted for each session, each resource once", () => {
    const subscriptions = new Subscriptions();
    for (const uri of ["x:1", "x:2", "x:1"]) subscriptions.add(a, uri);
    expect([subscriptions.countOf(a), subscriptions.countOf(b)]).toEqual([2, 0]);
    subscriptions.delete(a, "x:1");
    expect(subscriptions.countOf(a)).toBe(1);
  });

  it("end with their session; the server hears of those that nobody else has", () => {
    const subscriptions = new Subscriptions();
    for (const uri of ["x:1", "x:2", "x:3"]) subscriptions.add(a, uri);
    subscriptions.add(b, "x:2");
    expect(subscriptions.deleteAll(a)).toEqual(["x:1", "x:3"]);
    expect([subscriptions.countOf(a), subscribers(subscriptions, "x:1"), subscribers(subscriptions, "x:2")]).toEqual([0, [], [b]]);
    expect(subscriptions.deleteAll(a)).toEqual([]);
    expect(subscriptions.restart()).toEqual(["x:2"]);
  });

  it("are all told to a new server, which has confirmed none of them", () => {
    const subscriptions = new Subscriptions();
    subscriptions.add(a, "x:1");
    subscriptions.add(b, "x:2");
    subscriptions.confirm("x:1");
    expect(subscriptions.restart()).toEqual(["x:1", "x:2"]);
    expect([subscriptions.add(c, "x:1"), subscribers(subscriptions, "x:1")]).toEqual([true, [a, c]]);
    subscriptions.confirm("x:1");
    expect(subscriptions.add(b, "x:1")).toBe(false);
  });
});

describe("an update of a resource", () => {
  it.each([
    ["file:///notes/today.md", "file:///notes/today.md"],
    ["file:///notes", "file:///notes/today.md"],
    ["file:///notes/", "file:///notes/today.md"],
    ["file:///", "file:///notes/today.md"],
    ["db://tables/users", "db://tables/users/7"],
    ["db://tables", "db://tables/users/7"],
    ["file:///notes/", "file:///notes/"],
    ["file:///notes", "file:///notes/"],
  ])("reaches who is subscribed to %s where it is of %s", (subscribed, updated) => {
    const subscriptions = new Subscriptions();
    subscriptions.add(a, subscribed);
    expect(subscribers(subscriptions, updated)).toEqual([a]);
  });

  it.each([
    ["file:///notes/today.md", "file:///notes/today.md.bak"],
    ["file:///notes/today.md", "file:///notes"],
    ["file:///notes/today.md", "file:///notes/Today.md"],
    ["file:///note", "file:///notes/today.md"],
    ["file:///notes/tod", "file:///notes/today.md"],
    ["db://tables", "file://tables/users"],
    ["", "file:///notes"],
    ["/", "file:///notes"],
  ])("does not reach who is subscribed to %j where it is of %s", (subscribed, updated) => {
    const subscriptions = new Subscriptions();
    subscriptions.add(a, subscribed);
    expect(subscribers(subscriptions, updated)).toEqual([]);
  });

  it("reaches each session once, however many of its subscriptions it fits", () => {
    const subscriptions = new Subscriptions();
    for (const uri of ["file:///notes", "file:///notes/", URI, "file:///"]) subscriptions.add(a, uri);
    subscriptions.add(b, "file:///");
    expect(new Set(subscribers(subscriptions))).toEqual(new Set([a, b]));
    expect(subscribers(subscriptions)).toHaveLength(2);
  });
});

describe("subscriptions, whatever the sessions do", () => {
  it("are those of each session, and the server is subscribed as long as there is one", () => {
    const uris = ["x:1", "x:2", "x:3"];
    const step = fc.record({
      kind: fc.constantFrom("add", "delete", "end", "restart"),
      session: fc.constantFrom(a, b, c),
      uri: fc.constantFrom(...uris),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const subscriptions = new Subscriptions();
        const expected = new Map<string, Set<Session>>(uris.map((uri) => [uri, new Set()]));
        const atServer = new Set<string>();
        for (const { kind, session, uri } of steps) {
          if (kind === "add") {
            expected.get(uri)?.add(session);
            if (subscriptions.add(session, uri)) atServer.add(uri);
            subscriptions.confirm(uri);
          } else if (kind === "delete") {
            expected.get(uri)?.delete(session);
            if (subscriptions.delete(session, uri)) atServer.delete(uri);
          } else if (kind === "end") {
            for (const own of expected.values()) own.delete(session);
            for (const lonely of subscriptions.deleteAll(session)) atServer.delete(lonely);
          } else {
            atServer.clear();
            for (const again of subscriptions.restart()) atServer.add(again);
          }
          for (const [each, sessions] of expected) {
            expect(subscriptions.subscribers(each)).toEqual(sessions);
            expect([each, atServer.has(each)]).toEqual([each, sessions.size > 0]);
          }
          for (const each of [a, b, c])
            expect(subscriptions.countOf(each)).toBe([...expected.values()].filter((own) => own.has(each)).length);
        }
      }),
    );
  });
});
