// The shape of everything measured, as --json writes it, and how rounds become one number.

import type { LoadResult, Scenario } from "./load-contract.ts";
import { median } from "./statistics.ts";

export interface ScenarioResult extends Scenario {
  rounds: LoadResult[];
}

export interface TargetResult {
  name: string;
  role: "subject" | "peer" | "ceiling";
  /** One per start. */
  readyMs: number[];
  /** One per round. */
  idleRssBytes: number[];
  peakRssBytes: number[];
  scenarios: ScenarioResult[];
  failures: string[];
}

/** The median round of a scenario, value by value, and the errors of all rounds. */
export function summarize({ rounds }: ScenarioResult): LoadResult {
  const medianOf = (pick: (round: LoadResult) => number): number => median(rounds.map(pick));
  return {
    calls: medianOf((round) => round.calls),
    callsPerSecond: medianOf((round) => round.callsPerSecond),
    p50Ms: medianOf((round) => round.p50Ms),
    p99Ms: medianOf((round) => round.p99Ms),
    errors: rounds.reduce((sum, round) => sum + round.errors, 0),
    firstError: rounds.find((round) => round.firstError !== null)?.firstError ?? null,
  };
}
