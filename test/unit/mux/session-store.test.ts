import { describe, expect, it } from "vitest";
import type { Session } from "../../../src/mux/session.ts";
import { SessionStore } from "../../../src/mux/session-store.ts";
import { RecordedSink } from "../support/recorded-sink.ts";
import { IdleLane, newLog, newSession } from "../support/sessions.ts";

/** A store with so many sessions, in order of their making. */
function storeWith(count: number, maxSessions: number): { readonly store: SessionStore; readonly sessions: readonly Session[] } {
  const store = new SessionStore(maxSessions);
  const sessions = Array.from({ length: count }, () => newSession());
  for (const session of sessions) store.add(session);
  return { store, sessions };
}

/** Connects as a GET does. */
function listen({ streams }: Session): RecordedSink {
  const sink = new RecordedSink();
  streams.openStandalone().attach(sink);
  return sink;
}

function areKept(store: SessionStore, sessions: readonly Session[]): boolean[] {
  const kept = new Set(store.values());
  return sessions.map((session) => kept.has(session));
}

describe("a session", () => {
  it("has an id of its own, of visible ASCII characters, that nobody can guess", () => {
    const ids = Array.from({ length: 1000 }, () => newSession().id);
    expect(new Set(ids).size).toBe(1000);
    for (const id of ids) expect(id).toMatch(/^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
  });
});

describe("SessionStore", () => {
  it("finds a session with the revision that it was made with, and notes the use", () => {
    const store = new SessionStore(10);
    const session = newSession(undefined, "2025-06-18");
    store.add(session);
    expect(store.use(session.id, 500)).toBe(session);
    expect([session.protocolVersion, session.lastUsedAtMs]).toEqual(["2025-06-18", 500]);
  });

  it.each(["constructor", "__proto__", "toString", "", "0"])("knows no session %j", (id) => {
    const { store } = storeWith(1, 10);
    expect(store.use(id, 0)).toBeUndefined();
    expect(store.size).toBe(1);
  });

  it("ends a session once: its lane is told, its connections end, nothing of it is kept", () => {
    const [lane, log, store] = [new IdleLane(), newLog(), new SessionStore(10)];
    const session = newSession(lane, undefined, log);
    store.add(session);
    const sink = listen(session);
    session.streams.emit("a");
    store.end(session);
    store.end(session);
    expect([lane.ended, sink.endCount, log.size, store.size]).toEqual([[session], 1, 0, 0]);
    expect(store.use(session.id, 0)).toBeUndefined();
  });

  it("has told the lane before the connections end, so that requests in flight still get their answer", () => {
    const store = new SessionStore(10);
    const request = new RecordedSink();
    const lane = new (class extends IdleLane {
      override endSession(session: Session): void {
        super.endSession(session);
        stream.finish("the session was ended");
      }
    })();
    const session = newSession(lane);
    const stream = session.streams.openForRequest();
    stream.attach(request);
    store.add(session);
    store.end(session);
    expect([request.texts, request.endCount]).toEqual([["the session was ended"], 1]);
  });

  it("ends the session that was longest not used when there is one too many", () => {
    const { store, sessions } = storeWith(3, 3);
    for (const { id } of sessions.slice(0, 2)) store.use(id, 1);
    const added = newSession();
    store.add(added);
    expect([store.size, areKept(store, [...sessions, added])]).toEqual([3, [true, true, false, true]]);
  });

  it("ends no session that is listened to where there is one that is not", () => {
    const { store, sessions } = storeWith(3, 3);
    const [a, b] = sessions.map((session, index) => (index < 2 ? listen(session) : undefined));
    store.add(newSession());
    expect([areKept(store, sessions), a?.isEnded, b?.isEnded]).toEqual([[true, true, false], false, false]);
  });

  it("ends no session whose client waits for an answer where there is one that does not", () => {
    const { store, sessions } = storeWith(3, 3);
    for (const session of sessions.slice(0, 2)) session.callsInFlight++;
    store.add(newSession());
    expect(areKept(store, sessions)).toEqual([true, true, false]);
  });

  it("ends the longest unused one where all are listened to, never the new one", () => {
    const { store, sessions } = storeWith(2, 2);
    const sinks = sessions.map(listen);
    const added = newSession();
    store.add(added);
    expect(areKept(store, [...sessions, added])).toEqual([false, true, true]);
    expect(sinks.map(({ isEnded }) => isEnded)).toEqual([true, false]);
  });

  it("holds no more than its limit, and always the newest", () => {
    const { store, sessions } = storeWith(5, 1);
    expect([store.size, areKept(store, sessions)]).toEqual([1, [false, false, false, false, true]]);
  });

  it("ends all sessions of somebody, and none of anybody else", () => {
    const store = new SessionStore(10);
    const [owner, other] = [{ isRevoked: false }, { isRevoked: false }];
    const lane = new IdleLane();
    const sessions = [owner, other, owner, undefined].map((each) => newSession(lane, "2025-11-25", newLog(), each));
    for (const session of sessions) store.add(session);
    expect(store.endAllOf(owner)).toBe(2);
    expect(areKept(store, sessions)).toEqual([false, true, false, true]);
    expect(lane.ended).toEqual([sessions[0], sessions[2]]);
    expect(store.endAllOf(owner)).toBe(0);
  });
});
