// Takes all measurements. Targets take turns at every step, so that a slow moment
// of the machine does not hit only one of them.

import { setTimeout as sleep } from "node:timers/promises";
import type { Scenario } from "./load-contract.ts";
import type { Options } from "./options.ts";
import type { ScenarioResult, TargetResult } from "./results.ts";
import { runLoad } from "./run-load.ts";
import { TargetProcess } from "./target-process.ts";
import type { Target } from "./targets.ts";

export const SMALL_RESULT_BYTES = 100;
export const LARGE_RESULT_BYTES = 1_000_000;

const STARTS = 5;
const IDLE_MS = 1000;
const WARMUP_MS = 1000;
const CONNECTION_COUNTS = [1, 16, 64];

const SCENARIOS: readonly Scenario[] = [SMALL_RESULT_BYTES, LARGE_RESULT_BYTES].flatMap((resultBytes) =>
  CONNECTION_COUNTS.map((connections) => ({ connections, resultBytes })),
);

interface Entry {
  target: Target;
  result: TargetResult;
}

interface LiveEntry extends Entry {
  running: TargetProcess;
}

export async function measure({ targets, rounds, durationMs }: Options, onProgress: (text: string) => void): Promise<TargetResult[]> {
  const entries = targets.map((target) => ({ target, result: emptyResult(target) }));
  for (let start = 1; start <= STARTS; start += 1) {
    onProgress(`start ${start} of ${STARTS}`);
    for (const entry of entries) await measureStart(entry);
  }
  for (let round = 1; round <= rounds; round += 1) {
    // Another target is first in every round.
    const first = (round - 1) % entries.length;
    const ordered = [...entries.slice(first), ...entries.slice(0, first)];
    await measureRound(ordered, durationMs, (text) => onProgress(`round ${round} of ${rounds}: ${text}`));
  }
  return entries.map((entry) => entry.result);
}

async function measureStart(entry: Entry): Promise<void> {
  await recordingFailure(entry, "start", async () => {
    const running = await TargetProcess.start(entry.target);
    entry.result.readyMs.push(running.readyMs);
    await running.stop();
  });
}

async function measureRound(entries: readonly Entry[], durationMs: number, onProgress: (text: string) => void): Promise<void> {
  const live: LiveEntry[] = [];
  try {
    for (const entry of entries) {
      await recordingFailure(entry, "start", async () => {
        live.push({ ...entry, running: await TargetProcess.start(entry.target) });
      });
    }
    await sleep(IDLE_MS);
    for (const entry of live) {
      await recordingFailure(entry, "idle memory", () => entry.result.idleRssBytes.push(entry.running.rssBytes()));
    }
    for (const [index, scenario] of SCENARIOS.entries()) {
      const title = describe(scenario);
      onProgress(title);
      for (const entry of live) {
        await recordingFailure(entry, title, async () => measureLoad(entry, index, durationMs));
      }
    }
    for (const entry of live) {
      await recordingFailure(entry, "peak memory", () => entry.result.peakRssBytes.push(entry.running.peakRssBytes()));
    }
  } finally {
    await Promise.all(live.map(async ({ running }) => running.stop()));
  }
}

async function measureLoad({ target, running, result }: LiveEntry, index: number, durationMs: number): Promise<void> {
  const scenario = result.scenarios[index];
  if (scenario === undefined) return;
  const round = await runLoad({
    connections: scenario.connections,
    resultBytes: scenario.resultBytes,
    port: running.port,
    path: "/mcp",
    token: target.token,
    warmupMs: WARMUP_MS,
    durationMs,
  });
  scenario.rounds.push(round);
}

/** One target's failure is part of the report and does not end the others' measurement. */
async function recordingFailure({ result }: Entry, during: string, step: () => unknown): Promise<void> {
  try {
    await step();
  } catch (error) {
    result.failures.push(`${during}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function emptyResult({ name, role }: Target): TargetResult {
  const scenarios = SCENARIOS.map(({ connections, resultBytes }): ScenarioResult => ({ connections, resultBytes, rounds: [] }));
  return {
    name,
    role,
    readyMs: [],
    idleRssBytes: [],
    peakRssBytes: [],
    scenarios,
    failures: [],
  };
}

function describe({ connections, resultBytes }: Scenario): string {
  return `${connections} connections, ${resultBytes} byte results`;
}
