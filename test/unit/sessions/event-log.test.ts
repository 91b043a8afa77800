import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EventLog, type LoggedEvent } from "../../../src/sessions/streams/event-log.ts";
import { MemoryBudget } from "../../../src/memory/memory-budget.ts";
import { SEED } from "../../support/seed.ts";
import { UNGUARDED } from "../../support/defects.ts";
import { countAlive } from "../../support/garbage.ts";
import { ACCOUNT } from "../../server/support/memory.ts";

const LIMITS = { replayMaxBytes: 100_000, replayMaxAgeMs: 300_000, replayMaxEvents: 10_000 };
const IGNORED = { forget: () => undefined };

/** Returns the owners of events that were added and removed. Its own variables do not keep any of them. */
function addAndRemove(log: EventLog): WeakRef<object>[] {
  return Array.from({ length: 100 }, () => {
    const owner = { forget: () => undefined };
    const events = Array.from({ length: 10 }, (_, index) => log.forClient(ACCOUNT).append(owner, index, "text"));
    for (const event of events) log.remove(event);
    return new WeakRef(owner);
  });
}

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
  it("its limit is one of memory: a text beyond Latin-1 counts twice", () => {
    const log = new EventLog({ ...LIMITS, replayMaxBytes: 10 * 1024 }, () => 0, UNGUARDED);
    const text = `é${"x".repeat(255)}`;
    for (let sequence = 0; sequence < 30; sequence++) log.forClient(ACCOUNT).append(IGNORED, sequence, text);
    expect(log.size).toBe(10);
    log.close();
  });

  it("a client that needs memory loses its own events first, and no more than needed", () => {
    const budget = new MemoryBudget(40 * 1024);
    const log = new EventLog(LIMITS, () => 0, UNGUARDED);
    budget.addDroppable(log);
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
    budget.addDroppable(log);
    const left = inTurn(log, budget, 5);
    const account = budget.account("a");
    expect([account.hasRoomFor(31 * 1024), account.reserve("bodies", 31 * 1024)]).toEqual([false, undefined]);
    expect(left()).toEqual({ a: 5, b: 5 });
    expect([account.hasRoomFor(30 * 1024), left()]).toEqual([true, { a: 5, b: 5 }]);
    log.close();
  });

  it("events that were removed do not stay in memory", async () => {
    const log = new EventLog(LIMITS, () => 0, UNGUARDED);
    const owners = addAndRemove(log);
    // The engine may still hold the last one.
    expect(await countAlive(owners)).toBeLessThanOrEqual(1);
    log.close();
  });

  it("the oldest events are dropped first, wherever others were removed", () => {
    const steps = fc.array(fc.oneof(fc.constant("append" as const), fc.nat({ max: 30 })), { maxLength: 200 });
    fc.assert(
      fc.property(steps, (chosen) => {
        const dropped: LoggedEvent[] = [];
        const log = new EventLog({ ...LIMITS, replayMaxBytes: 5 * (512 + 10) }, () => 0, UNGUARDED);
        const owner = { ...IGNORED, forget: (event: LoggedEvent) => dropped.push(event) };
        let expected: LoggedEvent[] = [];
        for (const [sequence, step] of chosen.entries()) {
          const victim = step === "append" ? undefined : expected[step];
          if (victim !== undefined) log.remove(victim);
          expected = expected.filter((event) => event !== victim);
          if (step === "append") expected.push(log.forClient(ACCOUNT).append(owner, sequence, "0123456789"));
          const excess = expected.splice(0, Math.max(0, expected.length - 5));
          expect(dropped.splice(0)).toEqual(excess);
          expect(log.size).toBe(expected.length);
        }
        log.close();
      }),
      { seed: SEED },
    );
  });
});
