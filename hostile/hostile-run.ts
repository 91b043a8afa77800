// Runs many attacks, one after another.

import { Random } from "../chaos/random.ts";
import type { Attack } from "./attack.ts";
import { ALL_ATTACKS, shuffledAttacks } from "./attacks/all.ts";
import { type Result, stage } from "./stage.ts";

export interface RunOptions {
  readonly seed: number;
  /** Time after which no further attack begins; undefined to run all. */
  readonly durationMs?: number | undefined;
  /** A part of the names of the selected attacks. */
  readonly only?: string | undefined;
  readonly logFile?: string | undefined;
  readonly onResult?: (result: Result) => void;
}

/** Runs the attacks. With a time limit, the seed selects the attacks after the first ones. */
export async function runHostile({ seed, durationMs, only, logFile, onResult }: RunOptions): Promise<Result[]> {
  const random = new Random(seed);
  const planned = durationMs === undefined ? ALL_ATTACKS : shuffledAttacks(random);
  const attacks = planned.filter(({ name }) => name.includes(only ?? ""));
  if (attacks.length === 0) throw new Error(`no attack is named ${only}`);
  const endAtMs = performance.now() + (durationMs ?? Number.POSITIVE_INFINITY);
  const results: Result[] = [];
  let basePeakBytes: number | undefined;
  for (const attack of attacks) {
    if (performance.now() > endAtMs) break;
    const staged = await stage(attack, random.fork(), logFile).catch((error: unknown) => notStaged(attack, error));
    if (attack.isLoadBase === true) basePeakBytes = staged.observation.peakRssBytes;
    const result = { ...staged, basePeakBytes };
    onResult?.(result);
    results.push(result);
  }
  return results;
}

/** Returns the result of an attack that failed itself, or whose sidecar did not become ready. It counts as a missed bar. */
function notStaged(attack: Attack, error: unknown): Result {
  return {
    attack,
    replies: "nothing",
    breaches: [`not carried out: ${error instanceof Error ? error.message : String(error)}`],
    end: undefined,
    unhandledErrors: [],
    processesLeft: 0,
    wasCutOff: false,
    observation: {
      gapMs: 0,
      clockGapMs: 0,
      requests: 0,
      unanswered: 0,
      peakRssBytes: 0,
      calls: { ok: 0, refused: {}, lost: 0, crossed: 0, examples: [] },
      isServedAfterwards: false,
    },
  };
}
