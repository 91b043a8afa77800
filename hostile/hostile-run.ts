// Runs many attacks, one after another, and formats their results.

import { Random } from "../chaos/random.ts";
import { ALL_ATTACKS, shuffledAttacks } from "./attacks/all.ts";
import { type Result, stage } from "./stage.ts";

export interface RunOptions {
  readonly seed: number;
  /** Time after which no further attack begins; undefined to run all. */
  readonly durationMs?: number | undefined;
  /** A part of the names of the selected attacks. */
  readonly only?: string | undefined;
  readonly logFile?: string | undefined;
  readonly maxGapMs?: number | undefined;
  readonly onResult?: (result: Result) => void;
}

/** Runs the attacks. With a time limit, the seed selects the attacks after the first ones. */
export async function runHostile({ seed, durationMs, only = "", logFile, maxGapMs, onResult }: RunOptions): Promise<Result[]> {
  const random = new Random(seed);
  const planned = durationMs === undefined ? ALL_ATTACKS : shuffledAttacks(random);
  const attacks = planned.filter(({ name }) => name.includes(only));
  if (attacks.length === 0) throw new Error(`no attack is named ${only}`);
  const endAtMs = performance.now() + (durationMs ?? Number.POSITIVE_INFINITY);
  const results: Result[] = [];
  let basePeakBytes: number | undefined;
  for (const attack of attacks) {
    if (performance.now() > endAtMs) break;
    // An attack that fails itself, or whose sidecar does not become ready, counts as a missed bar.
    const result = await stage(attack, random.fork(), basePeakBytes, logFile, maxGapMs).catch((error: unknown): Result => {
      const misses = [`not carried out: ${error instanceof Error ? error.message : String(error)}`];
      return { attack, replies: "nothing", end: undefined, observation: undefined, misses };
    });
    if (attack.isLoadBase === true) basePeakBytes = result.observation?.peakRssBytes;
    onResult?.(result);
    results.push(result);
  }
  return results;
}

const HEADER = ["attack", "survived", "peak RSS", "longest `/livez` gap", "the attacker was told", "the bystander saw"];

export function formatTable(results: readonly Result[]): string {
  const rows = [HEADER, HEADER.map(() => "---"), ...results.map(cells)];
  return rows.map((row) => `| ${row.join(" | ")} |`).join("\n");
}

/** Returns the missed bars, with examples of the bystander's calls. */
export function formatMisses(results: readonly Result[]): string {
  const lines = results.flatMap(({ attack, misses, observation }) => [
    ...misses.map((miss) => `MISSED: ${attack.name}: ${miss}\n`),
    ...(observation?.examples ?? []).map((example) => `  ${example}\n`),
  ]);
  return lines.join("");
}

export function cells({ attack, replies, end, observation, misses }: Result): string[] {
  const { gapMs = 0, clockGapMs = 0, peakRssBytes = 0, calls = {} } = observation ?? {};
  const clock = clockGapMs - gapMs > 100 ? ` (${clockGapMs.toFixed(0)} by the clock)` : "";
  return [
    `${misses.length > 0 ? "**✗** " : ""}${attack.name}`,
    end === undefined ? "yes" : `**no**, ${end}`,
    `${(peakRssBytes / 1e6).toFixed(0)} MB`,
    `${gapMs.toFixed(0)} ms${clock}`,
    replies,
    Object.entries({ lost: 0, crossed: 0, ...calls })
      .map(([outcome, count]) => `${count} ${outcome}`)
      .join(", "),
  ];
}
