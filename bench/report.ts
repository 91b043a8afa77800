// Formats results as Markdown tables that are readable in a terminal too.

import type { Bar } from "./bars.ts";
import { IDLE_SESSIONS } from "./idle-sessions.ts";
import type { CallsResult, ProgressResult } from "./load-contract.ts";
import { LARGE_RESULT_BYTES, NOTIFICATIONS, SMALL_RESULT_BYTES, STREAMS } from "./measure.ts";
import { type Results, summarize, type TargetResult } from "./results.ts";
import { median, medianRatio, sum } from "./statistics.ts";

const BYTES_PER_KB = 1e3;
const BYTES_PER_MB = 1e6;

export function formatReport({ targets: results, childAlone, idleSessions }: Results, bars: readonly Bar[]): string {
  const sections = [
    `### Results of 100 bytes\n\n${loadTable(results, SMALL_RESULT_BYTES)}`,
    `### Results of 1 MB\n\n${loadTable(results, LARGE_RESULT_BYTES)}`,
    `### ${NOTIFICATIONS} progress notifications in one call\n\n${progressTable(results, childAlone)}`,
    `### ${STREAMS} open streams\n\n${streamsTable(results)}`,
    `### One session beside ${IDLE_SESSIONS} idle ones\n\n${idleSessionsTable(idleSessions)}`,
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

function progressTable(results: readonly TargetResult[], childAlone: readonly ProgressResult[]): string {
  const alone = childAlone.map(rateOf);
  const ceiling = results.find(({ role }) => role === "ceiling")?.progress.map(rateOf) ?? [];
  const rows = [...results.map(({ name, progress }) => ({ name, progress })), { name: "child alone", progress: childAlone }].map(
    ({ name, progress }) => {
      const rates = progress.map(rateOf);
      return [
        name,
        decimals(median(rates), 0),
        times(medianRatio(rates, ceiling), 2),
        times(medianRatio(rates, alone), 3),
        decimals(median(progress.map(({ lostPerCall }) => lostPerCall)), 0),
        progress.length === 0 ? "-" : String(sum(progress.map(({ errors }) => errors))),
      ];
    },
  );
  return table(["target", "notifications/s", "of bare", "of child alone", "lost per call", "errors"], rows);
}

function rateOf({ notificationsPerSecond }: ProgressResult): number {
  return notificationsPerSecond;
}

function streamsTable(results: readonly TargetResult[]): string {
  const ceiling = results.find(({ role }) => role === "ceiling");
  const rows = results.map((result) => {
    const { name, streams } = result;
    const megabytes = (bytes: number[]): string => decimals(median(bytes) / BYTES_PER_MB, 1);
    return [
      name,
      megabytes(streams.map(({ beforeBytes }) => beforeBytes)),
      megabytes(streams.map(({ openBytes }) => openBytes)),
      megabytes(streams.map(({ closedBytes }) => closedBytes)),
      decimals(median(bytesPerStream(result)) / BYTES_PER_KB, 1),
      times(medianRatio(bytesPerStream(result), ceiling === undefined ? [] : bytesPerStream(ceiling)), 2),
      decimals(median(broadcastTimes(result)), 1),
      times(medianRatio(broadcastTimes(result), ceiling === undefined ? [] : broadcastTimes(ceiling)), 2),
    ];
  });
  return table(["target", "RSS MB before", "open", "closed", "KB per stream", "of bare", "broadcast ms", "of bare"], rows);
}

function bytesPerStream({ streams }: TargetResult): number[] {
  return streams.map(({ beforeBytes, openBytes }) => (openBytes - beforeBytes) / STREAMS);
}

function broadcastTimes({ streams }: TargetResult): number[] {
  return streams.map(({ broadcastMs }) => broadcastMs);
}

function idleSessionsTable(result: Results["idleSessions"]): string {
  const alone = result?.alone ?? [];
  const rate = ({ callsPerSecond }: CallsResult): number => callsPerSecond;
  const rows = [
    { name: "alone", rounds: alone },
    { name: `beside ${IDLE_SESSIONS}`, rounds: result?.beside ?? [] },
  ].map(({ name, rounds }) => [
    name,
    decimals(median(rounds.map(rate)), 0),
    times(medianRatio(rounds.map(rate), alone.map(rate)), 3),
    decimals(median(rounds.map(({ p99Ms }) => p99Ms)), 3),
    rounds.length === 0 ? "-" : String(sum(rounds.map(({ errors }) => errors))),
  ]);
  return table(["claw", "calls/s", "of alone", "p99 ms", "errors"], rows);
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
  return results.flatMap(({ name, failures, scenarios, progress }) => [
    ...failures.map((failure) => `- ${name}: ${failure}`),
    ...progress
      .filter(({ firstError }) => firstError !== null)
      .map(({ errors, firstError }) => `- ${name}: ${errors} errors (progress), first: ${firstError ?? ""}`),
    ...scenarios.flatMap((scenario) => {
      const { errors, firstError } = summarize(scenario);
      if (errors === 0) return [];
      const place = `${scenario.connections} connections, ${scenario.resultBytes} byte results`;
      return [`- ${name}: ${errors} errors (${place}), first: ${firstError ?? ""}`];
    }),
  ]);
}

function decimals(value: number, digits: number): string {
  return Number.isNaN(value) ? "-" : value.toFixed(digits);
}

function times(ratio: number, digits: number): string {
  return Number.isNaN(ratio) ? "-" : `${ratio.toFixed(digits)}x`;
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
