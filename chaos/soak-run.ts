// A long run with mixed load and restarts, which measures the memory of the wrapper.

import { setTimeout as sleep } from "node:timers/promises";
import { findFreePort } from "../bench/free-port.ts";
import { median } from "../bench/statistics.ts";
import type { Adapter } from "./adapters.ts";
import type { FaultKind } from "./faults/kinds.ts";
import { usedHeapBytes } from "./heap.ts";
import { SETTLE_MS } from "./chaos-run.ts";
import { planFaults } from "./faults/schedule.ts";
import { Stage } from "./stage.ts";
import { leftovers, readStatus } from "./status.ts";

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
/** The parts of the time after the warm-up. At the end of each, the heap is measured. */
const HEAP_PARTS = 8;
/** The heap also has the messages in flight, so the median of several measurements counts. */
const HEAP_MEASUREMENTS = 5;
const HEAP_PAUSE_MS = 500;

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
  /** The heap in use after forced collections: at the end of the warm-up, then at the end of each eighth of the rest. */
  readonly heapsBytes: readonly number[];
  /** The calls that waited for answers of clients: those that were left at the end, and those whose time was up. */
  readonly parked: { readonly now: number; readonly expired: number } | undefined;
  /** Uses of memory that are not zero without clients. */
  readonly leftovers: readonly string[];
  readonly examples: readonly string[];
}

export async function runSoak(
  adapter: Adapter,
  seed: number,
  durationMs: number,
  onSample: (atMs: number, rssBytes: number) => void,
): Promise<SoakResult> {
  const inspectorPort = await findFreePort();
  const inspected = { ...adapter, nodeArgs: (port: number) => [`--inspect=127.0.0.1:${inspectorPort}`, ...adapter.nodeArgs(port)] };
  await using stage = await Stage.setUp(inspected, seed);
  const { ledger, wrapper, saboteur, random } = stage;
  const samplesBytes: number[] = [];
  const startedAtMs = performance.now();
  const sampler = setInterval(() => {
    const rssBytes = wrapper.rssBytes();
    samplesBytes.push(rssBytes);
    onSample(performance.now() - startedAtMs, rssBytes);
  }, SAMPLE_INTERVAL_MS);

  stage.startLoad();
  const heaps = measureHeaps(inspectorPort, startedAtMs, durationMs);
  await saboteur.work(planFaults(SOAK_FAULTS, random.fork(), durationMs, FAULT_GAP_MS));
  await sleep(Math.max(0, startedAtMs + durationMs - performance.now()));
  clearInterval(sampler);
  const heapsBytes = await heaps;
  const { recoveries } = saboteur.recovery();
  await stage.stopLoad();
  await sleep(SETTLE_MS);
  const status = await readStatus(adapter, wrapper.origin);
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
    heapsBytes,
    parked: status?.stateless?.asks?.parked,
    leftovers: leftovers(status),
    examples: ledger.examples,
  };
}

async function measureHeaps(port: number, startedAtMs: number, durationMs: number): Promise<number[]> {
  const heapsBytes: number[] = [];
  const partMs = (durationMs * (1 - WARM_UP_SHARE)) / HEAP_PARTS;
  for (let part = 0; part <= HEAP_PARTS; part++) {
    // The last measurement ends before the load does.
    const atMs = startedAtMs + durationMs * WARM_UP_SHARE + part * partMs - 2 * HEAP_MEASUREMENTS * HEAP_PAUSE_MS;
    await sleep(Math.max(0, atMs - performance.now()));
    const measured: number[] = [];
    for (let count = 0; count < HEAP_MEASUREMENTS; count++) {
      measured.push(await usedHeapBytes(port));
      await sleep(HEAP_PAUSE_MS);
    }
    heapsBytes.push(median(measured));
  }
  return heapsBytes;
}

function quarterMedians(samples: readonly number[]): number[] {
  const length = samples.length / 4;
  return [0, 1, 2, 3].map((quarter) => median(samples.slice(Math.floor(quarter * length), Math.floor((quarter + 1) * length))));
}
