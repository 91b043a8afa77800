import { randomUUID } from "node:crypto";
import { expect, it } from "vitest";
import { MemoryBudget, type MemoryHolder } from "../../src/memory.ts";
import { SessionStore } from "../../src/session/store.ts";
import { Session, type SessionLane } from "../../src/session/session.ts";
import { SessionStreams } from "../../src/session/streams.ts";
import { contextOf } from "../support/context.ts";
import { listen } from "./support/lane-bench.ts";

const LIMIT_BYTES = 100;
const MINUTE_MS = 60_000;

class Bench {
  nowMs = 0;
  readonly memory = new MemoryBudget(LIMIT_BYTES);
  readonly context = contextOf({ maxSessions: 1000 }, { memory: this.memory, nowMs: () => this.nowMs });
  readonly store = new SessionStore(this.context);

  /** Opens a session, whose subscriptions have this size. */
  open(holder: MemoryHolder, bytes: number): Session {
    const memory = this.memory.account(holder);
    const subscriptions = memory.hold("subscriptions", bytes);
    const lane: SessionLane = {
      request: () => undefined,
      notify: () => undefined,
      answer: () => undefined,
      announceLists: () => undefined,
      endCaller: () => subscriptions.release(),
    };
    const streams = new SessionStreams(memory);
    this.nowMs += 0.1;
    const session = new Session({ id: randomUUID(), owner: undefined, protocolVersion: "2025-11-25" }, lane, streams, this.nowMs);
    this.store.add(session);
    return session;
  }

  ended(sessions: readonly Session[]): number[] {
    return sessions.flatMap(({ id, owner }, index) => (this.store.get(id, owner) === undefined ? [index] : []));
  }

  asks(holder: MemoryHolder, bytes: number): boolean {
    return this.memory.hasRoomFor(holder, bytes);
  }
}

it("the longest unused sessions of the client with most subscriptions make room", () => {
  const bench = new Bench();
  const [small, large] = [[bench.open("a", 20), bench.open("a", 10)], [40, 10, 20].map((bytes) => bench.open("b", bytes))];
  large[0]?.touch(++bench.nowMs);
  expect(bench.asks("new", 25)).toBe(false);
  bench.nowMs += MINUTE_MS;
  expect([bench.asks("new", 25), bench.ended(small), bench.ended(large), bench.context.log.lines.length]).toEqual([true, [], [1, 2], 2]);
});

it("sessions in use, used lately or without subscriptions do not make room", () => {
  const bench = new Bench();
  const sessions = [bench.open("a", 30), bench.open("a", 30), bench.open("b", 40), bench.open("b", 0)];
  listen(sessions[0] ?? missing());
  sessions[1]?.beginCall();
  bench.nowMs += MINUTE_MS;
  sessions[2]?.touch(bench.nowMs);
  expect([bench.asks("new", 25), bench.ended(sessions)]).toEqual([false, []]);
});

it("one above its share takes room only from its own sessions", () => {
  const bench = new Bench();
  const [own, others] = [bench.open("a", 30), bench.open("b", 40)];
  bench.nowMs += MINUTE_MS;
  expect([bench.asks("a", 25), bench.ended([own, others])]).toEqual([true, [0]]);
});

function missing(): never {
  throw new Error("there is no such session");
}
