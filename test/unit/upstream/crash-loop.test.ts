import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CrashLoop, type CrashLoopState } from "../../../src/upstream/crash-loop.ts";

/** A run: how long until it was ready or, where it never was, ended; and how long it was ready. */
interface Run {
  readonly startMs: number;
  readonly runMs: number;
}

/** What is said after each of these runs, one after the other. */
function states(runs: readonly Run[], exits: number, periodMs: number): CrashLoopState[] {
  const loop = new CrashLoop({ exits, periodMs });
  let nowMs = 0;
  return runs.map(({ startMs, runMs }) => {
    nowMs += startMs + runMs;
    return loop.afterEnd(runMs, nowMs);
  });
}

function failing(times: number, startMs: number): Run[] {
  return Array.from({ length: times }, () => ({ startMs, runMs: 0 }));
}

const SHORT_RUN = { startMs: 0, runMs: 99 };
const LONG_RUN = { startMs: 0, runMs: 100 };

describe("CrashLoop", () => {
  it("is entered with the last of so many ends within the period", () => {
    expect(states(failing(5, 24), 5, 100)).toEqual(["none", "none", "none", "none", "entered"]);
  });

  it("is not entered by as many ends over a whole period", () => {
    expect(states(failing(20, 25), 5, 100)).toEqual(Array.from({ length: 20 }, () => "none"));
  });

  it("lasts, however rarely it is tried: slow tries alone would thin the ends out", () => {
    expect(states([...failing(2, 10), ...failing(3, 10_000)], 2, 100)).toEqual(["none", "entered", "lasting", "lasting", "lasting"]);
  });

  it("lasts through a run that was ready for less than the period", () => {
    expect(states([...failing(2, 10), SHORT_RUN, ...failing(1, 10_000)], 2, 100)).toEqual(["none", "entered", "lasting", "lasting"]);
  });

  it("is over after a run that was ready for the period, and counts anew from its end on", () => {
    expect(states([...failing(2, 10), LONG_RUN, ...failing(1, 10)], 2, 100)).toEqual(["none", "entered", "none", "entered"]);
  });

  it("takes the time until a run is ready for no proof", () => {
    expect(states([...failing(2, 10), { startMs: 10_000, runMs: 1 }], 2, 100)).toEqual(["none", "entered", "lasting"]);
  });

  it("is entered with every end where one is enough", () => {
    expect(states([LONG_RUN, LONG_RUN], 1, 100)).toEqual(["entered", "entered"]);
  });

  const runs = fc.array(fc.record({ startMs: fc.nat(60), runMs: fc.nat(150) }), { maxLength: 60 });
  const exits = fc.integer({ min: 1, max: 6 });
  const periodMs = fc.integer({ min: 1, max: 200 });

  it("is what the ends of all time say, whatever the runs", () => {
    fc.assert(
      fc.property(runs, exits, periodMs, (allRuns, needed, period) => {
        const found = states(allRuns, needed, period);
        const endsMs: number[] = [];
        let nowMs = 0;
        let isLooping = false;
        for (const [index, { startMs, runMs }] of allRuns.entries()) {
          nowMs += startMs + runMs;
          endsMs.push(nowMs);
          const lasts: boolean = isLooping && runMs < period;
          const isDense = endsMs.filter((endMs) => endMs > nowMs - period).length >= needed;
          isLooping = lasts || isDense;
          expect(found[index]).toBe(lasts ? "lasting" : isDense ? "entered" : "none");
        }
      }),
    );
  });

  it("is never entered while fewer ends than needed have been seen since the last run that lasted the period", () => {
    fc.assert(
      fc.property(runs, exits, periodMs, (allRuns, needed, period) => {
        let ends = 0;
        const early = states(allRuns, needed, period).filter((_, index) => {
          ends = (allRuns[index]?.runMs ?? 0) >= period ? 1 : ends + 1;
          return ends < needed;
        });
        expect(early.filter((state) => state !== "none")).toEqual([]);
      }),
    );
  });
});
