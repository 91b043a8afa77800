import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EventLog, type LoggedEvent } from "../../../src/sessions/event-log.ts";
import { SEED } from "../../support/seed.ts";
import { UNGUARDED } from "../support/defects.ts";
import { countAlive } from "../support/garbage.ts";
import { ACCOUNT } from "../support/memory.ts";

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

describe("the log of events", () => {
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
        const log = new EventLog({ ...LIMITS, replayMaxBytes: 50 }, () => 0, UNGUARDED);
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
