// Takes all measurements. Targets alternate at each step, so that a slow period
// of the machine does not affect only one of them.

import { setTimeout as sleep } from "node:timers/promises";
import { IDLE_SESSIONS, measureIdleSessions } from "./idle-sessions.ts";
import { type Endpoint, isCallsResult, isProgressResult, isStreamsResult, type ProgressResult, type Scenario } from "./load-contract.ts";
import type { Options } from "./options.ts";
import type { Results, ScenarioResult, TargetResult } from "./results.ts";
import { runLoad } from "./run-load.ts";
import { TargetProcess } from "./target-process.ts";
import type { Target } from "./targets.ts";

export const SMALL_RESULT_BYTES = 100;
export const LARGE_RESULT_BYTES = 1_000_000;
export const NOTIFICATIONS = 10_000;
export const STREAMS = 1000;

const STARTS = 5;
const IDLE_MS = 1000;
const WARMUP_MS = 1000;
const CONNECTION_COUNTS = [1, 16, 64];
/** Short, because the other scenarios have warmed up the target. */
const PROGRESS_WARMUP_MS = 300;
const BROADCASTS = 20;
/** Few rounds suffice, because memory differs little between rounds. */
const MAX_STREAM_ROUNDS = 3;

const PROGRESS = `${NOTIFICATIONS} progress notifications`;
const OPEN_STREAMS = `${STREAMS} open streams`;
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

export async function measure({ targets, rounds, durationMs }: Options, onProgress: (text: string) => void): Promise<Results> {
  const childAlone: Results["childAlone"] = [];
  const entries = targets.map((target) => ({ target, result: emptyResult(target) }));
  for (let start = 1; start <= STARTS; start += 1) {
    onProgress(`start ${start} of ${STARTS}`);
    for (const entry of entries) await measureStart(entry);
  }
  for (let round = 1; round <= rounds; round += 1) {
    // Each round begins with another target.
    const first = (round - 1) % entries.length;
    const ordered = [...entries.slice(first), ...entries.slice(0, first)];
    const onStep = (text: string): void => onProgress(`round ${round} of ${rounds}: ${text}`);
    await measureRound(ordered, durationMs, onStep);
    onStep("the child alone");
    childAlone.push(await runProgress(null, durationMs));
    if (round <= MAX_STREAM_ROUNDS) await measureStreams(ordered, onStep);
  }
  let idleSessions: Results["idleSessions"] = null;
  const subject = entries.find(({ target }) => target.role === "subject");
  if (subject !== undefined) {
    const title = `${IDLE_SESSIONS} idle sessions`;
    onProgress(title);
    await recordingFailure(subject, title, async () => {
      idleSessions = await measureIdleSessions(rounds, durationMs);
    });
  }
  return { targets: entries.map((entry) => entry.result), childAlone, idleSessions };
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
    onProgress(PROGRESS);
    for (const entry of live) {
      await recordingFailure(entry, PROGRESS, async () => {
        entry.result.progress.push(await runProgress(endpointOf(entry.running), durationMs));
      });
    }
  } finally {
    await Promise.all(live.map(async ({ running }) => running.stop()));
  }
}

async function measureLoad({ running, result }: LiveEntry, index: number, durationMs: number): Promise<void> {
  const scenario = result.scenarios[index];
  if (scenario === undefined) return;
  const { connections, resultBytes } = scenario;
  const config = { kind: "calls", ...endpointOf(running), connections, resultBytes, warmupMs: WARMUP_MS, durationMs } as const;
  scenario.rounds.push(await runLoad(config, isCallsResult));
}

async function runProgress(endpoint: Endpoint | null, durationMs: number): Promise<ProgressResult> {
  const config = { kind: "progress", endpoint, notifications: NOTIFICATIONS, warmupMs: PROGRESS_WARMUP_MS, durationMs } as const;
  return runLoad(config, isProgressResult);
}

/** Measures streams in new processes, one at a time: memory of the other scenarios would hide the memory of a stream. */
async function measureStreams(entries: readonly Entry[], onProgress: (text: string) => void): Promise<void> {
  onProgress(OPEN_STREAMS);
  for (const entry of entries.filter(({ target }) => target.hasOneChild)) {
    await recordingFailure(entry, OPEN_STREAMS, async () => {
      const running = await TargetProcess.start(entry.target);
      try {
        await sleep(IDLE_MS);
        const { pid } = running;
        const config = { kind: "streams", ...endpointOf(running), pid, streams: STREAMS, broadcasts: BROADCASTS } as const;
        entry.result.streams.push(await runLoad(config, isStreamsResult));
      } finally {
        await running.stop();
      }
    });
  }
}

function endpointOf({ port, target }: TargetProcess): Endpoint {
  return { port, path: "/mcp", token: target.token };
}

/** Records the failure of a target for the report, so that the other targets are still measured. */
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
    progress: [],
    streams: [],
    failures: [],
  };
}

function describe({ connections, resultBytes }: Scenario): string {
  return `${connections} connections, ${resultBytes} byte results`;
}
