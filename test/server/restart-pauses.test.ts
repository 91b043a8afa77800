import * as fc from "fast-check";
import { afterEach, expect, it, vi } from "vitest";
import type { Config } from "../../src/config/load.ts";
import { initializeAttempt, INITIALIZED } from "../../src/process/handshake.ts";
import { ServerProgram } from "../../src/process/generation.ts";
import { Supervisor, type SupervisorFailure } from "../../src/process/supervisor.ts";
import { Changes } from "../support/changes.ts";
import { contextOf } from "../support/context.ts";
import { TIMERS, useFakeClock } from "../support/fake-clock.ts";
import { ScriptedServers } from "../support/matrix/scripted-server.ts";
import { IGNORES_ALL } from "../support/supervised.ts";

useFakeClock(TIMERS);
afterEach(() => {
  vi.restoreAllMocks();
});

const NO_CRASH_LOOP = { crashLoopExits: 1_000_000, crashLoopPeriodMs: 1 };
const DEFAULTS: Partial<Config> = { readyTimeoutMs: 600_000, restartBackoffMs: 1000, restartMaxMs: 15_000, ...NO_CRASH_LOOP };

interface Course {
  /** The pauses before the restarts, and the state in each. */
  readonly pauses: readonly { readonly pauseMs: number; readonly state: string }[];
  /** Resolves when the supervisor has given up. */
  readonly failure: SupervisorFailure | undefined;
}

/** Runs a server that exits after each of these times. Zero is an exit before the handshake. */
async function courseOf(runs: readonly number[], settings: Partial<Config> = {}, random = 0): Promise<Course> {
  vi.spyOn(Math, "random").mockReturnValue(random);
  const servers = new ScriptedServers("2025", new Changes());
  const context = contextOf({ ...DEFAULTS, ...settings });
  const program = new ServerProgram(context, { command: "server", args: [], env: {}, cwd: undefined }, servers.start);
  const script = { first: initializeAttempt({ name: "test", version: "1" }), initialized: INITIALIZED };
  const supervisor = new Supervisor(context, program, script);
  let failure: SupervisorFailure | undefined;
  const ended = supervisor.run(IGNORES_ALL).then((result) => (failure = result));
  const pauses = (): Course["pauses"] =>
    context.log.lines.flatMap(({ message, fields }) =>
      message === "mcp server will be restarted" ? [{ pauseMs: Number(fields["pauseMs"]), state: String(fields["state"]) }] : [],
    );
  const until = async (isReached: () => boolean): Promise<void> => {
    while (!isReached()) await new Promise((resolve) => setImmediate(resolve));
  };
  for (const [index, runMs] of runs.entries()) {
    servers.isStartHeld = runs[index] === 0;
    await vi.advanceTimersByTimeAsync(pauses().at(-1)?.pauseMs ?? 0);
    await until(() => servers.processes.length > index);
    if (runMs > 0) await until(() => supervisor.status().state === "ready");
    await vi.advanceTimersByTimeAsync(runMs);
    servers.process(index + 1).crash();
    await until(() => pauses().length > index || failure !== undefined);
    if (failure !== undefined) break;
  }
  const course = { pauses: pauses(), failure };
  await supervisor.stop();
  await ended;
  return course;
}

async function pausesAfter(...args: Parameters<typeof courseOf>): Promise<number[]> {
  return (await courseOf(...args)).pauses.map(({ pauseMs }) => pauseMs);
}

it("the pause doubles up to the longest while runs end early", async () => {
  expect(await pausesAfter([0, 5, 0, 0, 14_999, 0, 0])).toEqual([1000, 2000, 4000, 8000, 15_000, 15_000, 15_000]);
});

it("the pause starts over after a run that outlasts the longest pause", async () => {
  expect(await pausesAfter([0, 0, 0, 15_000, 0, 14_999])).toEqual([1000, 2000, 4000, 1000, 2000, 4000]);
});

it("chance takes up to a quarter off, but nothing off the first pause", async () => {
  expect(await pausesAfter([0, 0, 0, 0, 0, 0], {}, 1)).toEqual([1000, 1875, 3516, 6592, 11_250, 11_250]);
  expect(await pausesAfter([0, 0], { restartBackoffMs: 14_000 }, 1)).toEqual([14_000, 14_000]);
});

it("the longest pause applies if the first is longer", async () => {
  expect(await pausesAfter([0, 0], { restartMaxMs: 10 }, 0.9)).toEqual([10, 10]);
});

it("a crash loop, with the longest pauses, lasts from the exit that makes it until a run was ready for the period", async () => {
  const runTimes = fc.array(fc.constantFrom(0, 1, 20_000, 39_000, 40_000, 60_000), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(runTimes, fc.integer({ min: 1, max: 4 }), async (runs, crashLoopExits) => {
      const { pauses } = await courseOf(runs, { crashLoopExits, crashLoopPeriodMs: 40_000 });
      const endsMs: number[] = [];
      let [nowMs, restarts, isLooping] = [0, 0, false];
      for (const [index, runMs] of runs.entries()) {
        endsMs.push((nowMs += runMs));
        isLooping = (isLooping && runMs < 40_000) || endsMs.filter((endMs) => endMs > nowMs - 40_000).length >= crashLoopExits;
        if (runMs >= 15_000) restarts = 0;
        const pauseMs = isLooping ? 15_000 : Math.min(15_000, 1000 * 2 ** restarts++);
        expect(pauses[index]).toEqual({ pauseMs, state: isLooping ? "failed" : "backing-off" });
        nowMs += pauseMs;
      }
    }),
    { numRuns: 50 },
  );
});

it("the server is given up exactly at the restart limit, after any runs, in a crash loop or not", async () => {
  const runTimes = fc.array(fc.constantFrom(0, 1, 14_999, 15_000, 30_000), { maxLength: 10 });
  const limits = fc.integer({ min: 1, max: 5 });
  const crashLoops = fc.constantFrom(NO_CRASH_LOOP, { crashLoopExits: 2, crashLoopPeriodMs: 60_000 });
  await fc.assert(
    fc.asyncProperty(runTimes, limits, crashLoops, async (runs, restartLimit, crashLoop) => {
      let restarts = 0;
      let count = 0;
      let isGivenUp = false;
      for (const runMs of runs) {
        if (runMs >= 15_000) restarts = 0;
        isGivenUp = restarts === restartLimit;
        if (isGivenUp) break;
        restarts++;
        count++;
      }
      const { pauses, failure } = await courseOf(runs, { restartLimit, ...crashLoop });
      expect([pauses.length, failure]).toEqual([count, isGivenUp ? { kind: "restart-limit", restarts: count } : undefined]);
    }),
    { numRuns: 30 },
  );
});
