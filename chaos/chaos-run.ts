// One run against one wrapper: warm-up, faults under load, calm, and SIGTERM under load.

import { setTimeout as sleep } from "node:timers/promises";
import { type Adapter, versionOf } from "./adapters.ts";
import type { FaultKind } from "./faults/kinds.ts";
import { planFaults } from "./faults/schedule.ts";
import { inspect } from "./inspection.ts";
import type { RequestRecord } from "./ledger.ts";
import type { RunResult } from "./results.ts";
import { Stage } from "./stage.ts";
import { increment } from "./tally.ts";

const WARM_UP_SHARE = 0.1;
const CALM_SHARE = 0.05;
/** Enough for the longest pause before a restart (`chaos/adapters.ts`), a start, and a response. */
const MIN_CALM_MS = 3000;
/** Time between two faults: about as long as the slowest servers need to restart. */
const FAULT_GAP_MS = 400;
const FINAL_LOAD_MS = 500;
/** So many requests are sent before the end, and some of them are in flight then. */
const FINAL_REQUESTS = 200;
/** On a busy machine, the run waits this long for what must happen in it: only a hang reaches the limit. */
const PATIENCE_MS = 200_000;
const POLL_MS = 50;
/** Longer than the time in which calls wait for answers (`chaos/adapters.ts`). */
export const SETTLE_MS = 2000;

export interface RunOptions {
  readonly adapter: Adapter;
  readonly seed: number;
  readonly durationMs: number;
  readonly kinds: readonly FaultKind[];
  /** The number of processes of the wrapper; by default one. */
  readonly replicas?: number | undefined;
  /** The run goes on until so many responses are right; by default none. */
  readonly fewestRight?: number | undefined;
  readonly logFile?: string | undefined;
}

export async function runChaos({ adapter, seed, durationMs, kinds, replicas, fewestRight = 0, logFile }: RunOptions): Promise<RunResult> {
  await using stage = await Stage.setUp(adapter, seed, logFile, replicas);
  const { ledger, fleet, saboteur, random } = stage;

  stage.startLoad();
  await sleep(durationMs * WARM_UP_SHARE);
  await stage.stopLoad();
  await sleep(SETTLE_MS);
  const rssBeforeBytes = fleet.rssBytes();

  stage.startLoad();
  await saboteur.work(planFaults(kinds, random.fork(), durationMs * (1 - WARM_UP_SHARE - CALM_SHARE), FAULT_GAP_MS));
  // A peer that never does it would only delay the result.
  const patienceMs = adapter.isSubject ? PATIENCE_MS : 0;
  await saboteur.retryMissing(kinds, patienceMs);
  await sleep(Math.max(MIN_CALM_MS, durationMs * CALM_SHARE));
  await waitUntil(() => saboteur.recovery().neverRecovered === 0 && ledger.verdicts.right >= fewestRight, patienceMs);
  await fleet.countUnready();
  await stage.stopLoad();
  await sleep(SETTLE_MS);
  const rssAfterBytes = fleet.rssBytes();
  const inspection = await inspect(adapter, fleet, ledger);
  const committed = saboteur.committed();
  const recovery = saboteur.recovery();

  const finalRequests = ledger.sent + FINAL_REQUESTS;
  stage.startLoad();
  await sleep(FINAL_LOAD_MS);
  await waitUntil(() => ledger.sent >= finalRequests, patienceMs);
  const end = await stage.tearDown();
  return {
    name: adapter.name,
    version: versionOf(adapter),
    notes: adapter.notes,
    seed,
    durationMs,
    sent: ledger.sent,
    verdicts: ledger.verdicts,
    errorsByCode: sorted(ledger.errorsByCode),
    lostBy: sorted(ledger.lostBy),
    strayAnswers: ledger.strayAnswers,
    answeredTwice: ledger.answeredTwice,
    crossedNotifications: ledger.crossedNotifications,
    faults: Object.fromEntries(kinds.map((kind) => [kind, committed.get(kind) ?? 0])),
    endedByItself: fleet.endedByItself ?? null,
    ...recovery,
    rssBeforeBytes,
    rssAfterBytes,
    ...end,
    inFlightAtEnd: countVerdicts(ledger.inFlightAtEnd),
    ...inspection,
    examples: ledger.examples,
  };
}

async function waitUntil(isDone: () => boolean, limitMs: number): Promise<void> {
  const deadlineMs = performance.now() + limitMs;
  while (!isDone() && performance.now() < deadlineMs) await sleep(POLL_MS);
}

function countVerdicts(records: readonly RequestRecord[]): Record<string, number> {
  const counts = new Map<string, number>();
  for (const { verdict } of records) increment(counts, verdict ?? "lost");
  return sorted(counts);
}

/** The most frequent first. */
function sorted(counts: ReadonlyMap<string, number>): Record<string, number> {
  return Object.fromEntries([...counts].sort(([, left], [, right]) => right - left));
}
