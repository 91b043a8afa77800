import { describe, expect, it } from "vitest";
import { EventLog } from "../../../src/session/replay.ts";
import { MemoryBudget } from "../../../src/memory.ts";
import { UNGUARDED } from "../../support/defects.ts";

const LIMITS = { replayMaxBytes: 100_000, replayMaxAgeMs: 300_000, replayMaxEvents: 10_000 };
/** Adds events of two clients in turn. @returns the number of events of each that are left. */
function inTurn(log: EventLog, budget: MemoryBudget, count: number): () => Record<string, number> {
  const left: Record<string, number> = { a: 0, b: 0 };
  for (let sequence = 0; sequence < count; sequence++) {
    for (const holder of ["a", "b"]) {
      const owner = { forget: () => void (left[holder] = (left[holder] ?? 0) - 1) };
      log.forClient(budget.account(holder)).append(owner, sequence, "x".repeat(1024 - 512));
      left[holder] = (left[holder] ?? 0) + 1;
    }
  }
  return () => left;
}

describe("the log of events", () => {
  it("a client that needs memory loses its own events first, and no more than needed", () => {
    const budget = new MemoryBudget(40 * 1024);
    const log = new EventLog(LIMITS, () => 0, UNGUARDED);
    budget.addRelief(log);
    const left = inTurn(log, budget, 10);
    const account = budget.account("a");
    expect(account.reserve("bodies", 10 * 1024)).toBeDefined();
    expect(left()).toEqual({ a: 10, b: 10 });
    expect(account.reserve("bodies", 4 * 1024)).toBeDefined();
    expect(left()).toEqual({ a: 6, b: 10 });
    expect(account.reserve("bodies", 10 * 1024)).toBeDefined();
    expect(left()).toEqual({ a: 0, b: 6 });
    log.close();
  });

  it("no event is dropped for a client that would not have room even then", () => {
    const budget = new MemoryBudget(40 * 1024);
    const log = new EventLog(LIMITS, () => 0, UNGUARDED);
    budget.addRelief(log);
    const left = inTurn(log, budget, 5);
    const account = budget.account("a");
    expect([account.hasRoomFor(31 * 1024), account.reserve("bodies", 31 * 1024)]).toEqual([false, undefined]);
    expect(left()).toEqual({ a: 5, b: 5 });
    expect([account.hasRoomFor(30 * 1024), left()]).toEqual([true, { a: 5, b: 5 }]);
    log.close();
  });
});
