import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RestartPolicy } from "../../../src/upstream/restart-policy.ts";

/** The pauses after runs of these lengths. */
function pauses(runs: readonly number[], random: () => number, firstPauseMs = 1000, longestPauseMs = 15_000): number[] {
  const policy = new RestartPolicy({ firstPauseMs, longestPauseMs, random });
  return runs.map((runMs) => policy.nextPauseMs(runMs));
}

describe("RestartPolicy", () => {
  it("doubles the pause from the first to the longest while runs end early", () => {
    expect(pauses([0, 0, 0, 0, 0, 0, 0], () => 0)).toEqual([1000, 2000, 4000, 8000, 15_000, 15_000, 15_000]);
  });

  it("takes a run that got ready but ended early for one more failure", () => {
    expect(pauses([0, 14_999, 5000], () => 0)).toEqual([1000, 2000, 4000]);
  });

  it("starts over after a run that outlasts the longest pause, and only then", () => {
    expect(pauses([0, 0, 0, 15_000, 0, 14_999], () => 0)).toEqual([1000, 2000, 4000, 1000, 2000, 4000]);
  });

  it("takes up to a quarter off by jitter, but nothing off the first pause", () => {
    expect(pauses([0, 0, 0, 0, 0], () => 1)).toEqual([1000, 1500, 3000, 6000, 11_250]);
    expect(pauses([0, 0, 0], () => 0.5)).toEqual([1000, 1750, 3500]);
  });

  it("still pauses for the longest after a thousand failures", () => {
    expect(
      pauses(
        Array.from({ length: 2000 }, () => 0),
        () => 0,
      ).at(-1),
    ).toBe(15_000);
  });

  it("never pauses for longer than the longest or shorter than the first, whatever the runs and the options", () => {
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

  it("pauses for the longest where the first is longer", () => {
    expect(pauses([0, 0], () => 0.9, 1000, 10)).toEqual([10, 10]);
  });
});
