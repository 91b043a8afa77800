import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { MemoryHolder } from "../../src/memory/memory-budget.ts";
import { Session, type SessionLane } from "../../src/sessions/session.ts";
import { SessionStore } from "../../src/sessions/session-store.ts";
import { SessionStreams } from "../../src/sessions/streams/session-streams.ts";
import { listen } from "./support/lane-bench.ts";
import { AMPLE_MEMORY } from "./support/memory.ts";

const LANE: SessionLane = {
  request: () => undefined,
  refuse: () => undefined,
  notify: () => undefined,
  answer: () => undefined,
  announceLists: () => undefined,
  endCaller: () => undefined,
};

/** A store whose sessions are each used a millisecond after the one before. */
class Bench {
  readonly store: SessionStore;
  #nowMs = 0;

  constructor(maxSessions: number) {
    this.store = new SessionStore(maxSessions);
  }

  /** Opens a session if there is room. */
  open(holder: MemoryHolder): Session | undefined {
    const streams = new SessionStreams(undefined);
    const session = new Session({
      id: randomUUID(),
      protocolVersion: "2025-11-25",
      lane: LANE,
      streams,
      memory: AMPLE_MEMORY.account(holder),
      nowMs: ++this.#nowMs,
    });
    // The decision before `initialize` is queued is the same.
    const hasRoom = this.store.hasRoomFor(holder);
    if (this.store.add(session) !== hasRoom) throw new Error("two decisions differ");
    return hasRoom ? session : undefined;
  }

  /** Opens sessions, for which there must be room. */
  fill(holder: MemoryHolder, count: number): Session[] {
    return Array.from({ length: count }, () => {
      const session = this.open(holder);
      if (session === undefined) throw new Error("there is no room");
      return session;
    });
  }

  /** Returns the numbers of the sessions that have ended. */
  ended(sessions: readonly Session[]): number[] {
    return sessions.flatMap((session, index) => (this.store.get(session.id) === undefined ? [index] : []));
  }

  use(session: Session | undefined): void {
    session?.touch(++this.#nowMs);
  }

  endCall(session: Session): void {
    session.endCall(++this.#nowMs);
  }
}

describe("a store with few free places", () => {
  it("a holder has all but a quarter of the sessions if it is alone", () => {
    const bench = new Bench(20);
    const sessions = bench.fill("a", 16);
    expect([bench.ended(sessions), bench.store.size]).toEqual([[0], 15]);
  });

  it("a holder above a quarter replaces its own session that was unused for longest", () => {
    const bench = new Bench(20);
    const [others, own] = [bench.fill("b", 4), bench.fill("a", 11)];
    bench.use(own[0]);
    bench.open("a");
    expect([bench.ended(others), bench.ended(own)]).toEqual([[], [1]]);
  });

  it("a holder above a quarter gets no place if all its sessions are in use", () => {
    const bench = new Bench(20);
    const [others, own] = [bench.fill("b", 4), bench.fill("a", 11)];
    for (const session of own) session.beginCall();
    expect([bench.open("a"), bench.store.size]).toEqual([undefined, 15]);
    expect([bench.open("b")?.holder, bench.ended([...others, ...own])]).toEqual(["b", []]);
  });
});

describe("a full store", () => {
  /** 20 sessions: 8 of a, 7 of b and 5 of c. Those of c were unused for longest, then those of b. */
  function full(): { readonly bench: Bench; readonly a: Session[]; readonly b: Session[]; readonly c: Session[] } {
    const bench = new Bench(20);
    const [a, b, c] = [bench.fill("a", 8), bench.fill("b", 7), bench.fill("c", 5)];
    for (const session of [...b, ...a]) bench.use(session);
    return { bench, a, b, c };
  }

  it("the largest holder above a quarter loses the session that was unused for longest", () => {
    const { bench, a, b, c } = full();
    bench.fill("new", 2);
    expect([bench.ended(a), bench.ended(b), bench.ended(c)]).toEqual([[0, 1], [], []]);
  });

  it("the next largest holder loses a session if the largest has no idle one", () => {
    const { bench, a, b, c } = full();
    listen(a[1] ?? missing());
    for (const session of a) session.beginCall();
    bench.open("new");
    expect([bench.ended(a), bench.ended(b), bench.ended(c)]).toEqual([[], [0], []]);
  });

  it("the longest unused of all is evicted if no holder above a quarter has idle ones", () => {
    const { bench, a, b, c } = full();
    for (const session of [...a, ...b]) session.beginCall();
    bench.use(c[0]);
    bench.open("new");
    expect([bench.ended(a), bench.ended(b), bench.ended(c)]).toEqual([[], [], [1]]);
  });

  it("a session can be evicted again after the end of its use", () => {
    const { bench, a, b, c } = full();
    const sessions = [...a, ...b, ...c];
    for (const session of sessions) session.beginCall();
    expect(bench.open("new")).toBeUndefined();
    for (const session of [b[3], a[7], a[2], c[0]]) bench.endCall(session ?? missing());
    bench.fill("new", 3);
    expect([bench.ended(a), bench.ended(b), bench.ended(c)]).toEqual([[2, 7], [3], []]);
  });

  it("a session that has ended is not evicted, idle or used once more", () => {
    const { bench, a, b, c } = full();
    for (const session of [...a, ...b, ...c]) session.beginCall();
    const [idle, used] = [c[0] ?? missing(), a[0] ?? missing()];
    bench.endCall(idle);
    bench.store.end(idle);
    bench.store.end(used);
    // The end of a session ends its calls.
    bench.endCall(used);
    for (const session of bench.fill("new", 2)) session.beginCall();
    expect([bench.open("new"), bench.store.size]).toEqual([undefined, 20]);
  });
});

describe("a store of three sessions at most", () => {
  it.each([1, 2, 3])("a holder may have all %i sessions", (max) => {
    const bench = new Bench(max);
    const sessions = bench.fill("a", max);
    expect(bench.ended(sessions)).toEqual([]);
    bench.open("b");
    expect(bench.ended(sessions)).toEqual([0]);
  });
});

function missing(): never {
  throw new Error("there is no such session");
}
