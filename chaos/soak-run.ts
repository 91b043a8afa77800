// A long run with mixed load and restarts, which measures the memory of the wrapper.

import { setTimeout as sleep } from "node:timers/promises";
import { median } from "../bench/statistics.ts";
import type { Adapter } from "./adapters.ts";
import type { FaultKind } from "./faults/kinds.ts";
import { planFaults } from "./faults/schedule.ts";
import { Stage } from "./stage.ts";

/** Exits of servers, and ends of sessions, streams and connections, as in a long run in production. */
const SOAK_FAULTS: readonly FaultKind[] = [
  "sigkill",
  "crash",
  "exit_cleanly",
  "hang",
  "notification_flood",
  "garbage",
  "disconnect_storm",
  "delete_during_calls",
  "come_back",
  "burst",
];
const FAULT_GAP_MS = 1000;
const SAMPLE_INTERVAL_MS = 1000;
/** The share of samples that is ignored, while caches and the heap grow. */
const WARM_UP_SHARE = 0.2;

export interface SoakResult {
  readonly seed: number;
  readonly durationMs: number;
  readonly sent: number;
  readonly right: number;
  readonly errors: number;
  readonly lost: number;
  readonly wrong: number;
  readonly restarts: number;
  readonly processesLeft: number;
  readonly unhandledErrors: readonly string[];
  readonly samplesBytes: readonly number[];
  /** Medians of the four quarters after the warm-up. */
  readonly quartersBytes: readonly number[];
  readonly growthPercent: number;
  readonly examples: readonly string[];
}

export async function runSoak(
  adapter: Adapter,
  seed: number,
  durationMs: number,
  onSample: (atMs: number, rssBytes: number) => void,
): Promise<SoakResult> {
  await using stage = await Stage.setUp(adapter, seed);
  const { ledger, wrapper, saboteur, random } = stage;
  const samplesBytes: number[] = [];
  const startedAtMs = performance.now();
  const sampler = setInterval(() => {
    const rssBytes = wrapper.rssBytes();
    samplesBytes.push(rssBytes);
    onSample(performance.now() - startedAtMs, rssBytes);
  }, SAMPLE_INTERVAL_MS);

  stage.startLoad();
  await saboteur.work(planFaults(SOAK_FAULTS, random.fork(), durationMs, FAULT_GAP_MS));
  await sleep(Math.max(0, startedAtMs + durationMs - performance.now()));
  clearInterval(sampler);
  const { recoveries } = saboteur.recovery();
  const { processesLeft, unhandledErrors } = await stage.tearDown();

  const quartersBytes = quarterMedians(samplesBytes.slice(samplesBytes.length * WARM_UP_SHARE));
  const [first = Number.NaN] = quartersBytes;
  const { verdicts } = ledger;
  return {
    seed,
    durationMs,
    sent: ledger.sent,
    right: verdicts.right,
    errors: verdicts.error,
    lost: verdicts.lost + verdicts.untyped,
    wrong: verdicts.wrong + verdicts.crossed + ledger.strayAnswers + ledger.answeredTwice + ledger.crossedNotifications,
    restarts: recoveries,
    processesLeft,
    unhandledErrors,
    samplesBytes,
    quartersBytes,
    growthPercent: ((quartersBytes.at(-1) ?? Number.NaN) / first - 1) * 100,
    examples: ledger.examples,
  };
}

function quarterMedians(samples: readonly number[]): number[] {
  const length = samples.length / 4;
  return [0, 1, 2, 3].map((quarter) => median(samples.slice(Math.floor(quarter * length), Math.floor((quarter + 1) * length))));
}
