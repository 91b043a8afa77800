import { expect, it } from "vitest";
import { EventLog, KeptEvents } from "../../../src/session/replay.ts";
import { type EventStream, SessionStreams } from "../../../src/session/streams.ts";
import { MemoryBudget } from "../../../src/memory.ts";
import { UNGUARDED, contextOf } from "../../support/context.ts";

const LIMITS = { replayMaxBytes: 100_000, replayMaxAgeMs: 300_000, replayMaxEvents: 10_000 };

function logOf(budget: MemoryBudget): EventLog {
  return new EventLog(contextOf(LIMITS, { memory: budget, nowMs: () => 0, defects: UNGUARDED }));
}

/** Adds events of two clients in turn. @returns the number of events of each that are left. */
function inTurn(log: EventLog, budget: MemoryBudget, count: number): () => Record<string, number> {
  const [a, b] = [new KeptEvents(budget.account("a"), log), new KeptEvents(budget.account("b"), log)];
  for (let each = 0; each < count; each++) for (const kept of [a, b]) kept.add("x".repeat(1024 - 512));
  return () => ({ a: a.size, b: b.size });
}

it("a client that needs memory loses its own events first, and no more than needed", () => {
  const budget = new MemoryBudget(40 * 1024);
  const log = logOf(budget);
  const left = inTurn(log, budget, 10);
  const account = budget.account("a");
  expect(account.reserve("bodies", 10 * 1024)).toBeDefined();
  expect(left()).toEqual({ a: 10, b: 10 });
  expect(account.reserve("bodies", 4 * 1024)).toBeDefined();
  expect(left()).toEqual({ a: 6, b: 10 });
  expect(account.reserve("bodies", 10 * 1024)).toBeDefined();
  expect(left()).toEqual({ a: 0, b: 6 });
});

it("no event is dropped for a client that would not have room even then", () => {
  const budget = new MemoryBudget(40 * 1024);
  const log = logOf(budget);
  const left = inTurn(log, budget, 5);
  const account = budget.account("a");
  expect([budget.hasRoomFor("a", 31 * 1024), account.reserve("bodies", 31 * 1024)]).toEqual([false, undefined]);
  expect(left()).toEqual({ a: 5, b: 5 });
  expect([budget.hasRoomFor("a", 30 * 1024), left()]).toEqual([true, { a: 5, b: 5 }]);
});

it("a batch is resumed only if no response after the event was dropped", () => {
  const budget = new MemoryBudget(40 * 1024);
  const streams = new SessionStreams(budget.account("a"), logOf(budget));
  const [batch, single] = [streams.openForRequest(), streams.openForRequest("1")];
  for (let each = 0; each < 3; each++) for (const stream of [batch, single]) stream.emit("x".repeat(5 * 1024));
  budget.account("a").reserve("bodies", 12 * 1024);
  const found = (stream: EventStream, sequence: number) => streams.find(stream.name, sequence) === stream;
  expect([found(batch, 0), found(batch, 3), found(single, 0)]).toEqual([false, true, true]);
});
