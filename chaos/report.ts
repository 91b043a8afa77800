// Formats results side by side, as Markdown tables that are readable in a terminal too.

import { FAULT_KINDS, type FaultKind } from "./faults/kinds.ts";
import { faultsMissing, offences, type RunResult } from "./results.ts";

const BYTES_PER_MB = 1e6;
const MAX_REPLICA_EXAMPLES = 12;

type Row = readonly [title: string, cell: (result: RunResult) => string];

const FIRST_ROWS: readonly Row[] = [
  ["requests sent", ({ sent }) => String(sent)],
  ["right answers", ({ verdicts }) => String(verdicts.right)],
  ["typed errors", ({ verdicts }) => String(verdicts.error)],
];

const MIDDLE_ROWS: readonly Row[] = [
  ["given up by the client itself", ({ verdicts }) => String(verdicts.abandoned)],
  ["unanswered at the client's DELETE", ({ verdicts }) => String(verdicts["cut-by-delete"])],
  ["refused after SIGTERM", ({ verdicts }) => String(verdicts["too-late"])],
];

const REPLICA_ROWS: readonly Row[] = [
  ["cut by SIGKILL to its replica", ({ verdicts }) => String(verdicts["cut-by-kill"])],
  ["resumed after SIGKILL to its replica", ({ replicas }) => String(replicas?.streamsResumed ?? 0)],
];

const LAST_ROWS: readonly Row[] = [
  ["ends of servers: recovered, never", ({ recoveries, neverRecovered }) => `${recoveries}, ${neverRecovered}`],
  [
    "longest from an end to the next right answer",
    ({ recoveries, longestRecoveryMs }) => (recoveries === 0 ? "-" : `${longestRecoveryMs.toFixed(0)} ms`),
  ],
  ["in flight at SIGTERM", ({ inFlightAtEnd }) => listing(inFlightAtEnd)],
  [
    "end after SIGTERM",
    ({ end }) => `${end.isForced ? "killed" : `exit ${end.exitCode ?? end.signal ?? "?"}`} in ${end.tookMs.toFixed(0)} ms`,
  ],
  ["RSS before, after", ({ rssBeforeBytes, rssAfterBytes }) => `${megabytes(rssBeforeBytes)}, ${megabytes(rssAfterBytes)} MB`],
  [
    "its own counters disagree with this table",
    ({ counterDiscrepancies }) => (counterDiscrepancies === null ? "has none" : String(counterDiscrepancies.length)),
  ],
  [
    "kinds of faults committed",
    (result) => `${Object.keys(result.faults).length - faultsMissing(result).length} of ${Object.keys(result.faults).length}`,
  ],
];

export function formatReport(results: readonly RunResult[]): string {
  const sections = [mainTable(results), `### Faults committed\n\n${faultTable(results)}`];
  const lost = results.flatMap(lossLines);
  if (lost.length > 0) sections.push(`### Lost requests\n\n${lost.join("\n")}`);
  const notes = results.flatMap(({ name, version, notes: own }) => own.map((note) => `- ${name} ${version}: ${note}`));
  if (notes.length > 0) sections.push(`### Missing features\n\n${notes.join("\n")}`);
  return sections.join("\n\n");
}

/** Returns details of the first offences. */
export function formatExamples({ name, examples, leftovers, unhandledErrors, endedByItself, replicas }: RunResult): string {
  const ended = endedByItself === null ? [] : [`ended by itself: ${endedByItself}`];
  const ofReplicas = [...(replicas?.sessionEnds ?? []), ...(replicas?.executedTwice ?? [])].slice(0, MAX_REPLICA_EXAMPLES);
  return [...ended, ...unhandledErrors, ...leftovers, ...examples, ...ofReplicas].map((line) => `${name}: ${line}\n`).join("");
}

function mainTable(results: readonly RunResult[]): string {
  const codes = [...new Set(results.flatMap(({ errorsByCode }) => Object.keys(errorsByCode)))];
  const errorRows = codes.map((code): Row => [`– ${code}`, ({ errorsByCode }) => String(errorsByCode[code] ?? 0)]);
  const whatMustNotBe = results[0] === undefined ? [] : Object.keys(offences(results[0]));
  const offenceRows = whatMustNotBe.map((what): Row => [`**${what}**`, (result) => `**${offences(result)[what]}**`]);
  const replicaRows = results.some(({ replicas }) => replicas !== null) ? REPLICA_ROWS : [];
  const rows = [...FIRST_ROWS, ...errorRows, ...MIDDLE_ROWS, ...replicaRows, ...offenceRows, ...LAST_ROWS];
  return table(
    ["", ...results.map(({ name, version }) => `${name} ${version}`)],
    rows.map(([title, cell]) => [title].concat(results.map(cell))),
  );
}

function faultTable(results: readonly RunResult[]): string {
  const kinds = Object.keys(results[0]?.faults ?? {}) as FaultKind[];
  const rows = kinds.map((kind) => [`${kind}: ${FAULT_KINDS[kind]}`].concat(results.map(({ faults }) => times(faults[kind] ?? 0))));
  return table(["fault", ...results.map(({ name }) => name)], rows);
}

/** Returns one line for each way in which responses were lost. */
function lossLines({ name, lostBy }: RunResult): string[] {
  const byEnd = new Map<string, string[]>();
  for (const [cause, count] of Object.entries(lostBy)) {
    const [what = "", end = ""] = cause.split(": ");
    byEnd.set(end, [...(byEnd.get(end) ?? []), `${count} ${what}`]);
  }
  return [...byEnd].map(([end, counts]) => `- ${name}, ${end}: ${counts.join(", ")}`);
}

function times(count: number): string {
  return count === 0 ? "never" : String(count);
}

function listing(counts: Readonly<Record<string, number>>): string {
  const entries = Object.entries(counts);
  return entries.length === 0 ? "nothing" : entries.map(([what, count]) => `${count} ${what}`).join(", ");
}

function megabytes(bytes: number): string {
  return Number.isNaN(bytes) ? "-" : (bytes / BYTES_PER_MB).toFixed(0);
}

function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = header.map((title, column) => Math.max(3, title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => align(cell, column, widths[column] ?? 0)).join(" | ")} |`;
  const rule = widths.map((width, column) => (column === 0 ? "-".repeat(width) : `${"-".repeat(width - 1)}:`));
  return [line(header), line(rule), ...rows.map(line)].join("\n");
}

function align(text: string, column: number, width: number): string {
  return column === 0 ? text.padEnd(width) : text.padStart(width);
}
