import { ERROR_CATALOG } from "../src/error-catalog/error-catalog.ts";
import type { Adapter } from "./adapters.ts";
import type { Verdict } from "./tally.ts";
import type { ReplicaFigures } from "./replicas/figures.ts";
import type { Recovery } from "./recovery-clock.ts";
import type { StageEnd } from "./stage.ts";

/** The results of one run. */
export interface RunResult extends Pick<Adapter, "name" | "notes">, StageEnd, Recovery {
  readonly version: string;
  readonly seed: number;
  readonly durationMs: number;
  readonly sent: number;
  readonly verdicts: Readonly<Record<Verdict, number>>;
  readonly errorsByCode: Readonly<Record<string, number>>;
  readonly lostBy: Readonly<Record<string, number>>;
  readonly strayAnswers: number;
  readonly answeredTwice: number;
  readonly crossedNotifications: number;
  /** The number of times that each kind of fault was actually committed. */
  readonly faults: Readonly<Record<string, number>>;
  readonly endedByItself: string | null;
  readonly rssBeforeBytes: number;
  readonly rssAfterBytes: number;
  /** Verdicts on the requests that were in flight at SIGTERM to the wrapper. */
  readonly inFlightAtEnd: Readonly<Record<string, number>>;
  /** The wrapper's own counters; undefined if it has none. */
  readonly status: unknown;
  /** Uses in these counters that were not zero without clients. */
  readonly leftovers: readonly string[];
  /** Differences between these counters and those of the clients; null if it has none. */
  readonly counterDiscrepancies: readonly string[] | null;
  readonly examples: readonly string[];
}

/** Returns the counts that must be zero. */
export function offences(result: RunResult): Record<string, number> {
  const { verdicts, unhandledErrors, endedByItself, replicas } = result;
  return {
    lost: verdicts.lost,
    wrong: verdicts.wrong,
    "answers to nothing": result.strayAnswers,
    "answered twice": result.answeredTwice,
    "crossed between clients": verdicts.crossed + result.crossedNotifications,
    "errors that no MCP client can read": verdicts.untyped,
    "processes left": result.processesLeft,
    "left over in its memory": result.leftovers.length,
    "unhandled rejections": unhandledErrors.length,
    "ended by itself": endedByItself === null ? 0 : 1,
    ...(replicas === null ? {} : replicaOffences(replicas)),
  };
}

function replicaOffences({ executedTwice, sessionEnds, slowToLeave, unready, refusedEarly }: ReplicaFigures): Record<string, number> {
  return {
    "executed twice": executedTwice.length,
    "sessions that ended by themselves": sessionEnds.length,
    "ready after SIGTERM": slowToLeave,
    "not ready after the faults": unready,
    "refused before the drain": refusedEarly,
  };
}

/** Returns the failures of a run against the subject. */
export function failures(result: RunResult): string[] {
  const failed = Object.entries(offences(result)).flatMap(([what, count]) => (count === 0 ? [] : [`${what}: ${count}`]));
  const missing = faultsMissing(result);
  if (missing.length > 0) failed.push(`faults never committed: ${missing.join(", ")}`);
  for (const code of Object.keys(result.errorsByCode)) {
    if (!Object.hasOwn(ERROR_CATALOG, code) || code === "INTERNAL_ERROR") failed.push(`unexpected error code: ${code}`);
  }
  if (result.neverRecovered > 0) failed.push(`servers that never recovered: ${result.neverRecovered}`);
  if (result.end.exitCode !== 0) failed.push(`exit code at SIGTERM: ${String(result.end.exitCode)}`);
  failed.push(...(result.counterDiscrepancies ?? []).map((text) => `its own counters disagree: ${text}`));
  if (result.verdicts["cut-by-delete"] > 0) failed.push(`calls unanswered at DELETE: ${result.verdicts["cut-by-delete"]}`);
  return failed;
}

export function faultsMissing({ faults }: RunResult): string[] {
  return Object.keys(faults).filter((kind) => faults[kind] === 0);
}
