// The shape of everything measured, as --json writes it, and how rounds become one number.

import type { CallsResult, ProgressResult, Scenario, StreamsResult } from "./load-contract.ts";
import { median } from "./statistics.ts";

export interface ScenarioResult extends Scenario {
  rounds: CallsResult[];
}

export interface TargetResult {
  name: string;
  role: "subject" | "guarded" | "peer" | "ceiling";
  /** One per start. */
  readyMs: number[];
  /** One per round. */
  idleRssBytes: number[];
  peakRssBytes: number[];
  scenarios: ScenarioResult[];
  progress: ProgressResult[];
  /** Empty where every session starts a process, so that many cannot be opened. */
  streams: StreamsResult[];
  failures: string[];
}

export interface Results {
  targets: TargetResult[];
  /** The progress of the child without any target in between, one per round. */
  childAlone: ProgressResult[];
}

/** The median round of a scenario, value by value, and the errors of all rounds. */
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
