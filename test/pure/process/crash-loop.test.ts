import * as fc from "fast-check";
import { expect, it } from "vitest";
import { CrashLoop } from "../../../src/process/supervisor.ts";

it("a crash loop begins with the exit that makes it, and lasts until a run was ready for the period", () => {
  const run = fc.record({ startMs: fc.nat(60), runMs: fc.nat(150) });
  const periods = fc.integer({ min: 1, max: 200 });
  fc.assert(
    fc.property(fc.array(run, { maxLength: 60 }), fc.integer({ min: 1, max: 6 }), periods, (runs, exits, periodMs) => {
      const crashLoop = new CrashLoop(exits, periodMs);
      const endsMs: number[] = [];
      let nowMs = 0;
      for (const { startMs, runMs } of runs) {
        nowMs += startMs + runMs;
        endsMs.push(nowMs);
        const lasts = crashLoop.isLooping && runMs < periodMs;
        const isDense = endsMs.filter((endMs) => endMs > nowMs - periodMs).length >= exits;
        expect(crashLoop.isEnteredBy(runMs, nowMs)).toBe(isDense && !lasts);
        expect(crashLoop.isLooping).toBe(isDense || lasts);
      }
    }),
  );
});
