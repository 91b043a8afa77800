// Many attacks, one after the other.

import { Random } from "../chaos/random.ts";
import type { Attack } from "./attack.ts";
import { ALL_ATTACKS, shuffledAttacks } from "./attacks/all.ts";
import { type Result, stage } from "./stage.ts";

export interface RunOptions {
  readonly seed: number;
  /** No attack begins later than that; undefined: all are made. */
  readonly durationMs?: number | undefined;
  /** Only attacks whose name contains this. */
  readonly only?: string | undefined;
  readonly logFile?: string | undefined;
  readonly onResult?: (result: Result) => void;
}

/** With a limit of time the seed decides which attacks are made behind the first ones. */
export async function runHostile({ seed, durationMs, only, logFile, onResult }: RunOptions): Promise<Result[]> {
  const random = new Random(seed);
  const planned = durationMs === undefined ? ALL_ATTACKS : shuffledAttacks(random);
  const attacks = planned.filter(({ name }) => name.includes(only ?? ""));
  if (attacks.length === 0) throw new Error(`no attack is named ${only}`);
  const endAtMs = performance.now() + (durationMs ?? Number.POSITIVE_INFINITY);
  const results: Result[] = [];
  for (const attack of attacks) {
    if (performance.now() > endAtMs) break;
    const result = await stage(attack, random.fork(), logFile).catch((error: unknown) => notStaged(attack, error));
    onResult?.(result);
    results.push(result);
  }
  return results;
}

/** A sidecar that does not even get ready, or an attack that fails itself, is a bar missed; the other attacks go on. */
function notStaged(attack: Attack, error: unknown): Result {
  return {
    attack,
    told: "nothing",
    breaches: [`not carried out: ${error instanceof Error ? error.message : String(error)}`],
    end: undefined,
    unhandledErrors: [],
    processesLeft: 0,
    wasCutOff: false,
    observation: {
      gapMs: 0,
      clockGapMs: 0,
      questions: 0,
      unanswered: 0,
      peakRssBytes: 0,
      calls: { ok: 0, refused: {}, lost: 0, crossed: 0, examples: [] },
      isServedAfterwards: false,
    },
  };
}
