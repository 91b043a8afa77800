import { array, assert, constant, constantFrom, double, integer, oneof, property, record } from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { MAX_TIMER_MS, RateLimit, Timer } from "../../src/timers.ts";
import { contextOf, UNGUARDED } from "../support/context.ts";
import { useFakeClock } from "../support/fake-clock.ts";

const MINUTE_MS = 60_000;

describe("a list of timers", () => {
  useFakeClock();

  it("each timer is due at the time for which it was set last, in order, and none that was cleared", () => {
    const step = record({
      kind: constantFrom("set", "clear", "wait"),
      index: integer({ min: 0, max: 40 }),
      ms: integer({ min: 1, max: 60 }),
    });
    assert(
      property(array(step, { maxLength: 500 }), (steps) => {
        vi.clearAllTimers();
        const context = contextOf({}, { defects: UNGUARDED });
        const [due, expected]: [string[], string[]] = [[], []];
        const all = Array.from({ length: 41 }, (_, index) => new Timer(context, (nowMs) => due.push(`${index} at ${nowMs}`)));
        /** In the order in which they were set. */
        const model = new Map<number, number>();
        for (const { kind, index, ms } of steps) {
          if (kind !== "wait") model.delete(index);
          if (kind === "clear") all[index]?.clear();
          else if (kind === "set") {
            all[index]?.set(Date.now() + ms);
            model.set(index, Date.now() + ms);
          }
          for (let left = kind === "wait" ? ms : 0; left > 0; left -= 2) {
            vi.advanceTimersByTime(1);
            for (const [each, atMs] of model) if (atMs === Date.now() && model.delete(each)) expected.push(`${each} at ${atMs}`);
          }
          expect(vi.getTimerCount()).toBe(model.size);
        }
        expect(due).toEqual(expected);
      }),
    );
  });

  it("a callback that throws is reported, and affects no other timer", () => {
    const context = contextOf();
    const due: number[] = [];
    const broken = new Timer(context, () => {
      throw new Error("broken");
    });
    for (const timer of [broken, new Timer(context, (nowMs) => due.push(nowMs))]) timer.set(5);
    new Timer(context, (nowMs) => due.push(nowMs)).set(6);
    vi.advanceTimersByTime(6);
    expect([due, vi.getTimerCount(), context.log.lines]).toMatchObject([[5, 6], 0, [{ fields: { kind: "deadline", reason: "broken" } }]]);
  });

  it("a timer may be due later than the timers of Node can be", () => {
    const context = contextOf({}, { defects: UNGUARDED });
    const due: number[] = [];
    new Timer(context, (nowMs) => due.push(nowMs)).set(2 * MAX_TIMER_MS + 5);
    vi.advanceTimersByTime(2 * MAX_TIMER_MS + 10);
    expect(due).toEqual([2 * MAX_TIMER_MS + 5]);
  });
});

describe("a rate limit", () => {
  it.each([1, 7, 60, 999])("a limit of %i passes as many at once, and no more", (perMinute) => {
    const limit = new RateLimit(perMinute);
    for (let taken = 0; taken < perMinute; taken++) expect(limit.take(1000)).toBeUndefined();
    expect(limit.take(1000)).toBeCloseTo(MINUTE_MS / perMinute, 3);
  });

  it("a limit is never exceeded, and passes a caller that waited as told", () => {
    const gaps = array(oneof(constant(0), double({ min: 0, max: 5000, noNaN: true }), constant("as told" as const)), {
      maxLength: 300,
    });
    assert(
      property(integer({ min: 1, max: 1_000_000 }), double({ min: 0, max: 1e9, noNaN: true }), gaps, (perMinute, startMs, steps) => {
        const limit = new RateLimit(perMinute);
        const taken: number[] = [];
        let nowMs = startMs;
        let waitMs = 0;
        for (const step of steps) {
          const isAsTold = step === "as told";
          nowMs += isAsTold ? waitMs : step;
          const asked = limit.waitMs(nowMs);
          const told = limit.take(nowMs);
          expect(told).toBe(asked);
          expect(isAsTold && waitMs > 0 ? told : undefined, "refused although it waited as told").toBeUndefined();
          expect(told ?? 1).toBeGreaterThan(0);
          if (told === undefined) taken.push(nowMs);
          waitMs = told ?? 0;
        }
        const lastMs = taken.at(-1) ?? 0;
        for (const [index, fromMs] of taken.entries()) {
          const allowed = perMinute + ((lastMs - fromMs) * perMinute) / MINUTE_MS;
          expect(taken.length - index).toBeLessThanOrEqual(allowed + 0.02);
        }
      }),
    );
  });
});
