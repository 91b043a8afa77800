// The types of all results, as --json writes them, and the summary of rounds.

import type { CallsResult, ProgressResult, Scenario, StreamsResult } from "./load-contract.ts";
import { median } from "./statistics.ts";

export interface ScenarioResult extends Scenario {
  rounds: CallsResult[];
}

export interface TargetResult {
  name: string;
  role: "subject" | "guarded" | "peer" | "ceiling";
  /** One value per start. */
  readyMs: number[];
  /** One value per round. */
  idleRssBytes: number[];
  peakRssBytes: number[];
  scenarios: ScenarioResult[];
  progress: ProgressResult[];
  /** Empty for a target that starts a process per session, which cannot open many. */
  streams: StreamsResult[];
  failures: string[];
}

/** The calls of one session, alone and beside idle sessions. One value per turn. */
export interface IdleSessionsResult {
  /** The rate at which the idle sessions were opened. */
  sessionsPerSecond: number;
  alone: CallsResult[];
  beside: CallsResult[];
}

export interface Results {
  targets: TargetResult[];
  /** The results of the server without a target, one per round. */
  childAlone: ProgressResult[];
  /** Null if it was not or could not be measured. */
  idleSessions: IdleSessionsResult | null;
}

/** Returns the median of each value over all rounds of a scenario, and the errors of all rounds. */
export function summarize({ rounds }: ScenarioResult): CallsResult {
  const medianOf = (pick: (round: CallsResult) => number): number => median(rounds.map(pick));
  return {
    calls: medianOf((round) => round.calls),
    callsPerSecond: medianOf((round) => round.callsPerSecond),
    p50Ms: medianOf((round) => round.p50Ms),
    p99Ms: medianOf((round) => round.p99Ms),
    errors: rounds.reduce((sum, round) => sum + round.errors, 0),
    firstError: rounds.find((round) => round.firstError !== null)?.firstError ?? null,
  };
}
