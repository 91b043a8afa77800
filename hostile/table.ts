// Formats results as a Markdown table that is readable in a terminal too.

import { misses } from "./judge.ts";
import type { Result } from "./stage.ts";

const BYTES_PER_MB = 1e6;

const HEADER = ["attack", "survived", "peak RSS", "longest `/livez` gap", "the attacker was told", "the bystander saw"];

export function formatTable(results: readonly Result[]): string {
  const rows = [HEADER, HEADER.map(() => "---"), ...results.map(cells)];
  return rows.map((row) => `| ${row.join(" | ")} |`).join("\n");
}

/** Returns the missed bars, with examples of the bystander's calls. */
export function formatMisses(results: readonly Result[]): string {
  const lines = results.flatMap((result) => [
    ...misses(result).map((miss) => `MISSED: ${result.attack.name}: ${miss}\n`),
    ...result.observation.calls.examples.map((example) => `  ${example}\n`),
  ]);
  return lines.join("");
}

export function cells(result: Result): string[] {
  const { attack, replies, end, observation } = result;
  const { gapMs, clockGapMs, peakRssBytes, calls } = observation;
  const missed = misses(result);
  const clock = clockGapMs - gapMs > 100 ? ` (${clockGapMs.toFixed(0)} by the clock)` : "";
  const refused = Object.entries(calls.refused).map(([code, count]) => `, ${count}× ${code}`);
  return [
    `${missed.length > 0 ? "**✗** " : ""}${attack.name}`,
    end === undefined ? "yes" : `**no**, ${end}`,
    `${(peakRssBytes / BYTES_PER_MB).toFixed(0)} MB`,
    `${gapMs.toFixed(0)} ms${clock}`,
    replies,
    `${calls.ok} ok${refused.join("")}, ${calls.lost} lost, ${calls.crossed} crossed`,
  ];
}
