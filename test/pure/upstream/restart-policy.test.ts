import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RestartPolicy, type RestartPolicyOptions } from "../../../src/process/supervisor.ts";

/** More exits than any test has. */
const NO_CRASH_LOOP = { exits: 1_000_000, periodMs: 1 };

/** Returns the pauses after runs of these lengths. */
function pauses(runs: readonly number[], random: () => number, firstPauseMs = 1000, longestPauseMs = 15_000): number[] {
  const policy = new RestartPolicy({ firstPauseMs, longestPauseMs, crashLoop: NO_CRASH_LOOP, restartLimit: undefined, random });
  return runs.map((runMs) => policy.afterEnd(runMs, 0).pauseMs ?? Number.NaN);
}

/** Creates a policy without jitter. */
function policyWith(options: Partial<RestartPolicyOptions>): RestartPolicy {
  const defaults = { firstPauseMs: 1000, longestPauseMs: 15_000, crashLoop: NO_CRASH_LOOP, restartLimit: undefined, random: () => 0 };
  return new RestartPolicy({ ...defaults, ...options });
}

describe("the restart policy", () => {
  it("the pause doubles up to the longest while runs end early", () => {
    expect(pauses([0, 0, 0, 0, 0, 0, 0], () => 0)).toEqual([1000, 2000, 4000, 8000, 15_000, 15_000, 15_000]);
  });

  it("the pause starts over after a run that outlasts the longest pause", () => {
    expect(pauses([0, 0, 0, 15_000, 0, 14_999], () => 0)).toEqual([1000, 2000, 4000, 1000, 2000, 4000]);
  });

  it("jitter takes up to a quarter off, but nothing off the first pause", () => {
    expect(pauses([0, 0, 0, 0, 0], () => 1)).toEqual([1000, 1500, 3000, 6000, 11_250]);
    expect(pauses([0, 0, 0], () => 0.5)).toEqual([1000, 1750, 3500]);
  });

  it("the pause is never longer than the longest or shorter than the first", () => {
    const milliseconds = fc.integer({ min: 1, max: 2_147_483_647 });
    const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(fc.array(fc.nat()), random, milliseconds, milliseconds, (runs, value, a, b) => {
        const [first, longest] = a < b ? [a, b] : [b, a];
        for (const pause of pauses(runs, () => value, first, longest)) {
          expect(pause).toBeGreaterThanOrEqual(first);
          expect(pause).toBeLessThanOrEqual(longest);
        }
      }),
    );
  });

  it("the longest pause applies if the first is longer", () => {
    expect(pauses([0, 0], () => 0.9, 1000, 10)).toEqual([10, 10]);
  });

  it("the longest pause begins with the exit that makes a crash loop", () => {
    const policy = policyWith({ crashLoop: { exits: 3, periodMs: 60_000 } });
    expect([0, 1000, 3000, 18_000].map((nowMs) => policy.afterEnd(0, nowMs))).toEqual([
      { pauseMs: 1000, crashLoop: "none" },
      { pauseMs: 2000, crashLoop: "none" },
      { pauseMs: 15_000, crashLoop: "entered" },
      { pauseMs: 15_000, crashLoop: "lasting" },
    ]);
  });

  it("the crash loop lasts until a run was ready for the period", () => {
    const run = fc.record({ startMs: fc.nat(60), runMs: fc.nat(150) });
    const periods = fc.integer({ min: 1, max: 200 });
    fc.assert(
      fc.property(fc.array(run, { maxLength: 60 }), fc.integer({ min: 1, max: 6 }), periods, (runs, exits, periodMs) => {
        const policy = policyWith({ crashLoop: { exits, periodMs } });
        const endsMs: number[] = [];
        let nowMs = 0;
        let isLooping = false;
        for (const { startMs, runMs } of runs) {
          nowMs += startMs + runMs;
          endsMs.push(nowMs);
          const lasts: boolean = isLooping && runMs < periodMs;
          const isDense = endsMs.filter((endMs) => endMs > nowMs - periodMs).length >= exits;
          isLooping = lasts || isDense;
          expect(policy.afterEnd(runMs, nowMs).crashLoop).toBe(lasts ? "lasting" : isDense ? "entered" : "none");
        }
      }),
    );
  });

  describe("a restart limit", () => {
    it("the policy gives up exactly at the limit, after any runs", () => {
      fc.assert(
        fc.property(fc.array(fc.integer({ min: 0, max: 30_000 })), fc.integer({ min: 1, max: 5 }), (runs, restartLimit) => {
          const policy = policyWith({ restartLimit });
          let restarts = 0;
          for (const runMs of runs) {
            if (runMs >= 15_000) restarts = 0;
            const { pauseMs } = policy.afterEnd(runMs, 0);
            expect(pauseMs === undefined).toBe(restarts === restartLimit);
            if (pauseMs === undefined) return;
            restarts++;
          }
        }),
      );
    });
  });
});
