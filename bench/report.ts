// Writes results as Markdown tables that can also be read in a terminal.

import type { Bar } from "./bars.ts";
import { LARGE_RESULT_BYTES, SMALL_RESULT_BYTES } from "./measure.ts";
import { summarize, type TargetResult } from "./results.ts";
import { median } from "./statistics.ts";

const BYTES_PER_MB = 1e6;

export function formatReport(results: readonly TargetResult[], bars: readonly Bar[]): string {
  const sections = [
    `### Results of 100 bytes\n\n${loadTable(results, SMALL_RESULT_BYTES)}`,
    `### Results of 1 MB\n\n${loadTable(results, LARGE_RESULT_BYTES)}`,
    `### Start and memory\n\n${processTable(results)}`,
    `### Bars\n\n${barTable(bars)}`,
  ];
  const problems = formatProblems(results);
  if (problems.length > 0) sections.push(`### Problems\n\n${problems.join("\n")}`);
  return sections.join("\n\n");
}

function loadTable(results: readonly TargetResult[], resultBytes: number): string {
  const rows = results.flatMap(({ name, scenarios }) =>
    scenarios
      .filter((scenario) => scenario.resultBytes === resultBytes)
      .map((scenario) => {
        const { callsPerSecond, p50Ms, p99Ms, errors } = summarize(scenario);
        return [
          name,
          String(scenario.connections),
          decimals(callsPerSecond, callsPerSecond < 1000 ? 1 : 0),
          decimals(p50Ms, 3),
          decimals(p99Ms, 3),
          scenario.rounds.length === 0 ? "-" : String(errors),
        ];
      }),
  );
  return table(["target", "connections", "calls/s", "p50 ms", "p99 ms", "errors"], rows);
}

function processTable(results: readonly TargetResult[]): string {
  const rows = results.map(({ name, readyMs, idleRssBytes, peakRssBytes }) => [
    name,
    decimals(median(readyMs), 0),
    decimals(median(idleRssBytes) / BYTES_PER_MB, 1),
    decimals(median(peakRssBytes) / BYTES_PER_MB, 1),
  ]);
  return table(["target", "exec to ready ms", "idle RSS MB", "peak RSS MB"], rows);
}

function barTable(bars: readonly Bar[]): string {
  const rows = bars.map((bar) => [
    bar.title,
    Number.isNaN(bar.value) ? "-" : `${decimals(bar.value, 2)}${bar.unit}`,
    `${bar.sense} ${bar.limit}${bar.unit}`,
    verdict(bar),
  ]);
  return table(["what", "measured", "bar", ""], rows);
}

function verdict(bar: Bar): string {
  if (Number.isNaN(bar.value)) return "not measured";
  return bar.met ? "met" : "MISSED";
}

function formatProblems(results: readonly TargetResult[]): string[] {
  return results.flatMap(({ name, failures, scenarios }) => [
    ...failures.map((failure) => `- ${name}: ${failure}`),
    ...scenarios.flatMap((scenario) => {
      const { errors, firstError } = summarize(scenario);
      if (errors === 0) return [];
      const where = `${scenario.connections} connections, ${scenario.resultBytes} byte results`;
      return [`- ${name}: ${errors} wrong answers (${where}), first: ${firstError ?? ""}`];
    }),
  ]);
}

function decimals(value: number, digits: number): string {
  return Number.isNaN(value) ? "-" : value.toFixed(digits);
}

function table(header: string[], rows: string[][]): string {
  const widths = header.map((title, column) => Math.max(3, title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: string[]): string => `| ${cells.map((cell, column) => alignCell(cell, column, widths[column] ?? 0)).join(" | ")} |`;
  const rule = widths.map((width, column) => (column === 0 ? "-".repeat(width) : `${"-".repeat(width - 1)}:`));
  return [line(header), line(rule), ...rows.map(line)].join("\n");
}

function alignCell(text: string, column: number, width: number): string {
  return column === 0 ? text.padEnd(width) : text.padStart(width);
}
