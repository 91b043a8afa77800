// One run: warm-up, faults under load, calm, and SIGTERM under load. And its result, with what must not be in it.

import { setTimeout as sleep } from "node:timers/promises";
import { connectInspector } from "../bench/inspector.ts";
import { median, table } from "../bench/statistics.ts";
import { ERROR_CATALOG } from "../src/mcp/errors.ts";
import { inspect, type Inspection } from "./counters.ts";
import { FAULT_KINDS, type FaultKind, planFaults } from "./faults.ts";
import { increment, type Ledger, type Recovery } from "./ledger.ts";
import { Stage, type StageEnd, type StageOptions } from "./stage.ts";

const WARM_UP_SHARE = 0.1;
const CALM_SHARE = 0.05;
/** Enough for the longest pause before a restart (`stage.ts`), a start, and a response. */
const MIN_CALM_MS = 3000;
const FAULT_GAP_MS = 400;
/** Time between two measurements of the heap. It also has the messages in flight, so the median of several measurements counts. */
const HEAP_INTERVAL_MS = 5000;
/** The share of them that is ignored, while caches grow. */
const GROWING_SHARE = 0.2;
/** Fewer measurements show no growth. */
const MIN_HEAPS = 8;
const MAX_GROWTH_PERCENT = 10;
const FINAL_LOAD_MS = 500;
/** So many requests are sent before the end, and some of them are in flight then. */
const FINAL_REQUESTS = 200;
/** On a busy machine, the run waits this long for what must happen in it: only a hang reaches the limit. */
const PATIENCE_MS = 200_000;
const POLL_MS = 50;
/** Longer than the time in which calls wait for answers (`stage.ts`). */
const SETTLE_MS = 2000;
const MAX_REPEATED = 12;

export interface RunOptions extends StageOptions {
  readonly durationMs: number;
  readonly kinds: readonly FaultKind[];
  /** Time between two faults, if it is not the usual one. */
  readonly gapMs?: number | undefined;
  /** The run goes on until so many responses are right; by default none. */
  readonly fewestRight?: number | undefined;
}

export interface RunResult {
  readonly ledger: Ledger;
  /** The number of times that each kind of fault was actually committed. */
  readonly faults: ReadonlyMap<FaultKind, number>;
  readonly recovery: Recovery;
  readonly inspection: Inspection;
  readonly end: StageEnd;
  readonly endedByItself: string | undefined;
  readonly rssBeforeBytes: number;
  readonly rssAfterBytes: number;
  /** The heap in use under faults, after forced collections. Empty without an inspector. */
  readonly heapsBytes: readonly number[];
}

export async function runChaos({ durationMs, kinds, gapMs = FAULT_GAP_MS, fewestRight = 0, ...options }: RunOptions): Promise<RunResult> {
  await using stage = await Stage.setUp(options);
  const { ledger, sidecar, saboteur, random } = stage;

  stage.startLoad();
  await sleep(durationMs * WARM_UP_SHARE);
  await stage.stopLoad();
  await sleep(SETTLE_MS);
  const rssBeforeBytes = sidecar.memoryBytes();

  stage.startLoad();
  const over = new AbortController();
  const measuring = options.inspectorPort === undefined ? [] : measureHeaps(options.inspectorPort, over.signal);
  await saboteur.work(planFaults(kinds, random.fork(), durationMs * (1 - WARM_UP_SHARE - CALM_SHARE), gapMs)).finally(() => over.abort());
  const heapsBytes = await measuring;
  await saboteur.retryMissing(kinds, PATIENCE_MS);
  await sleep(Math.max(MIN_CALM_MS, durationMs * CALM_SHARE));
  await waitUntil(() => saboteur.recovery().neverRecovered === 0 && ledger.verdicts.right >= fewestRight);
  await stage.stopLoad();
  await sleep(SETTLE_MS);
  const rssAfterBytes = sidecar.memoryBytes();
  const inspection = await inspect(sidecar, ledger);
  const committed = saboteur.committed();
  const recovery = saboteur.recovery();

  const finalRequests = ledger.sent + FINAL_REQUESTS;
  stage.startLoad();
  await sleep(FINAL_LOAD_MS);
  await waitUntil(() => ledger.sent >= finalRequests);
  const end = await stage.tearDown();
  const faults = new Map<FaultKind, number>(kinds.map((kind) => [kind, committed.get(kind) ?? 0]));
  const { endedByItself } = sidecar;
  return { ledger, faults, recovery, inspection, end, endedByItself, rssBeforeBytes, rssAfterBytes, heapsBytes };
}

async function measureHeaps(port: number, over: AbortSignal): Promise<number[]> {
  const inspector = await connectInspector(port);
  const heapsBytes: number[] = [];
  try {
    while (!over.aborted) {
      await inspector.command("HeapProfiler.collectGarbage");
      const { usedSize } = (await inspector.command("Runtime.getHeapUsage")) as { readonly usedSize: number };
      heapsBytes.push(usedSize);
      await sleep(HEAP_INTERVAL_MS, undefined, { signal: over });
    }
  } catch {
    // The load is over, or the sidecar has ended, which the result shows.
  }
  inspector.close();
  return heapsBytes;
}

async function waitUntil(isDone: () => boolean): Promise<void> {
  const deadlineMs = performance.now() + PATIENCE_MS;
  while (!isDone() && performance.now() < deadlineMs) await sleep(POLL_MS);
}

function offences({ ledger, end, inspection, endedByItself }: RunResult): Record<string, number> {
  const { verdicts } = ledger;
  return {
    lost: verdicts.lost,
    wrong: verdicts.wrong,
    "answers to nothing": ledger.strayAnswers,
    "answered twice": ledger.answeredTwice,
    "crossed between clients": verdicts.crossed + ledger.crossedNotifications,
    "errors that no MCP client can read": verdicts.untyped,
    "processes left": end.processesLeft,
    "left over in its memory": inspection.leftovers.length,
    "unhandled rejections": end.unhandledErrors.length,
    "executed twice": end.executedTwice.length,
    "ended by itself": endedByItself === undefined ? 0 : 1,
  };
}

export function failures(result: RunResult): string[] {
  const { ledger, recovery, inspection, end } = result;
  const failed = Object.entries(offences(result)).flatMap(([what, count]) => (count === 0 ? [] : [`${what}: ${count}`]));
  const missing = faultsMissing(result);
  if (missing.length > 0) failed.push(`faults never committed: ${missing.join(", ")}`);
  for (const code of ledger.errorsByCode.keys()) {
    if (!Object.hasOwn(ERROR_CATALOG, code) || code === "INTERNAL_ERROR") failed.push(`unexpected error code: ${code}`);
  }
  if (recovery.neverRecovered > 0) failed.push(`servers that never recovered: ${recovery.neverRecovered}`);
  if (end.exit.exitCode !== 0) failed.push(`exit code at SIGTERM: ${String(end.exit.exitCode)}`);
  failed.push(...inspection.counterDiscrepancies.map((text) => `its own counters disagree: ${text}`));
  if (ledger.verdicts["cut-by-delete"] > 0) failed.push(`calls unanswered at DELETE: ${ledger.verdicts["cut-by-delete"]}`);
  return failed;
}

function faultsMissing({ faults }: RunResult): string[] {
  return [...faults].filter(([, count]) => count === 0).map(([kind]) => kind);
}

export function outcomesAtEnd({ ledger }: RunResult): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { verdict } of ledger.inFlightAtEnd) increment(counts, verdict ?? "lost");
  return counts;
}

export function formatReport(result: RunResult): string {
  const faultRows = [...result.faults].map(([kind, count]) => [`${kind}: ${FAULT_KINDS[kind]}`, count === 0 ? "never" : String(count)]);
  const lost = [...result.ledger.lostBy].map(([cause, count]) => `lost: ${count} × ${cause}`);
  return [table(["", "claw"], resultRows(result)), "", table(["fault", "committed"], faultRows), ...lost].join("\n");
}

function resultRows(result: RunResult): string[][] {
  const { ledger, recovery, inspection, end, rssBeforeBytes, rssAfterBytes } = result;
  const { verdicts } = ledger;
  const { recoveries, neverRecovered, longestRecoveryMs } = recovery;
  const { exit } = end;
  const how = exit.isForced ? "killed" : `exit ${exit.exitCode ?? exit.signal ?? "?"}`;
  const rows: readonly (readonly [title: string, value: string | number])[] = [
    ["requests sent", ledger.sent],
    ["right answers", verdicts.right],
    ["typed errors", verdicts.error],
    ...[...ledger.errorsByCode].map(([code, count]) => [`– ${code}`, count] as const),
    ["given up by the client itself", verdicts.abandoned],
    ["unanswered at the client's DELETE", verdicts["cut-by-delete"]],
    ["refused after SIGTERM", verdicts["too-late"]],
    ...Object.entries(offences(result)).map(([what, count]) => [`**${what}**`, `**${count}**`] as const),
    ["ends of servers: recovered, never", `${recoveries}, ${neverRecovered}`],
    ["longest from an end to the next right answer", `${longestRecoveryMs.toFixed(0)} ms`],
    ["in flight at SIGTERM", [...outcomesAtEnd(result)].map(([what, count]) => `${count} ${what}`).join(", ")],
    ["end after SIGTERM", `${how} in ${exit.tookMs.toFixed(0)} ms`],
    ["RSS before, after", `${inMegabytes(rssBeforeBytes)}, ${inMegabytes(rssAfterBytes)} MB`],
    [
      "heap by quarter under faults",
      result.heapsBytes.length < MIN_HEAPS ? "not measured" : `${byQuarter(result).map(inMegabytes).join(", ")} MB`,
    ],
    ["its own counters disagree with this table", inspection.counterDiscrepancies.length],
  ];
  return rows.map(([title, value]) => [title, String(value)]);
}

function inMegabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}

/** Returns the medians of the heap in the quarters of the time under faults, after a first part. */
function byQuarter({ heapsBytes }: RunResult): number[] {
  const counted = heapsBytes.slice(heapsBytes.length * GROWING_SHARE);
  const bounds = [0, 1, 2, 3, 4].map((quarter) => Math.floor((quarter * counted.length) / 4));
  return [0, 1, 2, 3].map((quarter) => median(counted.slice(bounds[quarter], bounds[quarter + 1])));
}

/** Returns the reason why a long run fails, if its heap has grown. */
export function growth(result: RunResult): string[] {
  if (result.heapsBytes.length < MIN_HEAPS) return ["the run was too short to measure its heap"];
  const [first = Number.NaN, , , last = Number.NaN] = byQuarter(result);
  const percent = (last / first - 1) * 100;
  return percent < MAX_GROWTH_PERCENT ? [] : [`the heap has grown by ${percent.toFixed(1)} %`];
}

export function formatExamples({ ledger, inspection, end, endedByItself }: RunResult): string {
  const ended = endedByItself === undefined ? [] : [`ended by itself: ${endedByItself}`];
  return [...ended, ...end.unhandledErrors, ...inspection.leftovers, ...ledger.examples, ...end.executedTwice.slice(0, MAX_REPEATED)]
    .map((line) => `${line}\n`)
    .join("");
}
