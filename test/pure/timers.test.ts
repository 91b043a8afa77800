import { array, assert, constant, double, integer, oneof, property } from "fast-check";
import { describe, expect, it } from "vitest";
import { RateLimit } from "../../src/timers.ts";

const MINUTE_MS = 60_000;

describe("a rate limit", () => {
  it.each([1, 7, 60, 999])("a limit of %i passes as many at once, and no more", (perMinute) => {
    const limit = new RateLimit(perMinute);
    for (let taken = 0; taken < perMinute; taken++) expect(limit.take(1000)).toBeUndefined();
    expect(limit.take(1000)).toBeCloseTo(MINUTE_MS / perMinute, 3);
  });

  it("the wait is exact", () => {
    const limit = new RateLimit(2);
    limit.take(0);
    limit.take(10_000);
    expect(limit.take(10_000)).toBe(20_000);
    expect(limit.take(29_999)).toBe(1);
    expect(limit.take(30_000)).toBeUndefined();
    expect(limit.take(30_000)).toBe(30_000);
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
