import { describe, expect, it, vi } from "vitest";
import type { MemoryHolder } from "../../src/memory.ts";
import type { Session } from "../../src/session/session.ts";
import { TIMERS, useFakeClock } from "../support/fake-clock.ts";
import { listen } from "./support/lane-bench.ts";
import { LanesBench } from "./support/lanes-bench.ts";
import type { RecordedReply } from "./support/recorded-reply.ts";

useFakeClock(TIMERS);

class Bench {
  readonly lanes: LanesBench;
  readonly #calls = new Map<Session, RecordedReply>();

  constructor(maxSessions: number) {
    this.lanes = new LanesBench({ maxSessions });
  }

  get size(): number {
    return this.lanes.sessions.size;
  }

  open(holder: MemoryHolder): Session | undefined {
    vi.advanceTimersByTime(1);
    return this.lanes.connect({}, holder).session();
  }

  fill(holder: MemoryHolder, count: number): Session[] {
    return Array.from({ length: count }, () => this.open(holder) ?? missing());
  }

  ended(sessions: readonly Session[]): number[] {
    return sessions.flatMap(({ id, owner }, index) => (this.lanes.sessions.get(id, owner) === undefined ? [index] : []));
  }

  use({ id, owner }: Session): void {
    vi.advanceTimersByTime(1);
    this.lanes.sessions.get(id, owner)?.touch(Date.now());
  }

  call(...sessions: readonly Session[]): void {
    for (const session of sessions) this.#calls.set(session, this.lanes.shared.request(session, { method: "tools/call" }));
  }

  endCall(session: Session): void {
    vi.advanceTimersByTime(1);
    this.#calls.get(session)?.disconnect();
  }
}

describe("a store with few free places", () => {
  it("a holder has all but a quarter of the sessions if it is alone", () => {
    const bench = new Bench(20);
    const sessions = bench.fill("a", 16);
    expect([bench.ended(sessions), bench.size]).toEqual([[0], 15]);
  });

  it("a holder above a quarter replaces its own session that was unused for longest", () => {
    const bench = new Bench(20);
    const [others, own] = [bench.fill("b", 4), bench.fill("a", 11)];
    bench.use(own[0] ?? missing());
    bench.open("a");
    expect([bench.ended(others), bench.ended(own)]).toEqual([[], [1]]);
  });

  it("a holder above a quarter gets no place if all its sessions are in use", () => {
    const bench = new Bench(20);
    const [others, own] = [bench.fill("b", 4), bench.fill("a", 11)];
    bench.call(...own);
    expect([bench.open("a"), bench.size]).toEqual([undefined, 15]);
    expect([bench.open("b")?.memory.holder, bench.ended([...others, ...own])]).toEqual(["b", []]);
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
    bench.call(...a);
    bench.open("new");
    expect([bench.ended(a), bench.ended(b), bench.ended(c)]).toEqual([[], [0], []]);
  });

  it("the longest unused of all is evicted if no holder above a quarter has idle ones", () => {
    const { bench, a, b, c } = full();
    bench.call(...a, ...b);
    bench.use(c[0] ?? missing());
    bench.open("new");
    expect([bench.ended(a), bench.ended(b), bench.ended(c)]).toEqual([[], [], [1]]);
  });

  it("a session can be evicted again after the end of its use", () => {
    const { bench, a, b, c } = full();
    const sessions = [...a, ...b, ...c];
    bench.call(...sessions);
    expect(bench.open("new")).toBeUndefined();
    for (const session of [b[3], a[7], a[2], c[0]]) bench.endCall(session ?? missing());
    bench.fill("new", 3);
    expect([bench.ended(a), bench.ended(b), bench.ended(c)]).toEqual([[2, 7], [3], []]);
  });

  it("a session that has ended is not evicted, idle or used once more", () => {
    const { bench, a, b, c } = full();
    bench.call(...a, ...b, ...c);
    const [idle, used] = [c[0] ?? missing(), a[0] ?? missing()];
    bench.endCall(idle);
    bench.lanes.sessions.end(idle);
    bench.lanes.sessions.end(used);
    bench.call(...bench.fill("new", 2));
    expect([bench.open("new"), bench.size]).toEqual([undefined, 20]);
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
