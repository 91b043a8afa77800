// Compares this build with similar programs, or with another build of its own: `run.ts [compare]`; see README.md.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { availableParallelism, cpus } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import type { Calls, Load, LoadResult } from "./load-process.ts";
import { endWithSignals, positive } from "./command.ts";
import { ProgramProcess } from "./program.ts";
import { estimateRatio, median, type RatioEstimate, table } from "./statistics.ts";
import { type Target, thisAndBefore, thisAndPeers } from "./targets.ts";

const LARGE_BYTES = 1_000_000;
const PEER_CALLS: readonly Calls[] = [100, LARGE_BYTES].flatMap((resultBytes) =>
  [1, 16, 64].map((connections) => callsOf(resultBytes, connections)),
);
const BUILD_CALLS: readonly Calls[] = [
  callsOf(100, 1),
  callsOf(100, 16),
  { ...callsOf(100, 16), title: "100 B without a session, 16 connections", isStateless: true },
  callsOf(LARGE_BYTES, 4),
];
const START = "Start and memory";
const PROGRESS = "10,000 progress notifications in a call";
const STREAMS = "1000 idle streams";
const STARTS = 3;
const IDLE_MS = 1000;
const END_DEADLINE_MS = 3000;
/** The process of a load has this time more than it should need. */
const GRACE_MS = 60_000;
/** A comparison of builds fails if the ratio of their calls/s may be below this limit. */
const LEAST_RATIO = 0.95;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: "string" },
    seconds: { type: "string" },
    only: { type: "string", default: "" },
    json: { type: "string" },
    before: { type: "string" },
    flags: { type: "string", default: "" },
    "before-flags": { type: "string" },
  },
});
const isComparison = positionals[0] === "compare";
const rounds = positive("--rounds", values.rounds ?? (isComparison ? "9" : "6"));
const seconds = positive("--seconds", values.seconds ?? (isComparison ? "2" : "1"));

/** What was measured: by group, then by title, then by target, a value for each round. */
const results: Record<string, Record<string, Record<string, number[]>>> = {};
const problems: string[] = [];

endWithSignals();
const targets = isComparison
  ? thisAndBefore(values.before, words(values.flags), words(values["before-flags"] ?? values.flags))
  : thisAndPeers();
const allCalls = (isComparison ? BUILD_CALLS : PEER_CALLS).filter(({ title }) => isWanted(title));
for (let round = 1; round <= rounds; round++) {
  // Each round begins with another target.
  const first = round % targets.length;
  await runRound([...targets.slice(first), ...targets.slice(0, first)], `round ${round} of ${rounds}: `);
}
const machine = `Node ${process.version}, ${process.platform} ${process.arch}, ${availableParallelism()} cores (${cpus()[0]?.model ?? "unknown"})`;
process.stdout.write(`${machine}; medians of ${rounds} rounds, ${seconds} s for each load, ratios with their 95 % interval\n\n`);
for (const group of Object.keys(results)) process.stdout.write(`### ${group}\n\n${groupTable(group)}\n\n`);
const missed = isComparison ? slowerCalls() : [];
for (const line of [...problems, ...missed]) process.stdout.write(`${line}\n`);
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ machine, rounds, seconds, results, problems }, null, 2)}\n`);
process.exitCode = problems.length + missed.length > 0 ? 1 : 0;

async function runRound(ordered: readonly Target[], step: string): Promise<void> {
  if (isWanted(START)) for (const target of ordered) await measureStarts(target, step);
  const isLoaded = allCalls.length > 0 || isWanted(PROGRESS);
  const running = isLoaded ? await Promise.all(ordered.map((target) => ProgramProcess.start(target))) : [];
  for (const calls of allCalls) await runLoad(calls.title, running, { kind: "calls", calls }, step);
  if (allCalls.length > 0) for (const each of running) add(START, each.program.name, "peak RSS MB", each.memoryBytes("VmHWM") / 1e6);
  if (isWanted(PROGRESS)) await runLoad(PROGRESS, running, { kind: "progress", notifications: 10_000 }, step);
  for (const each of running) await each.end(END_DEADLINE_MS);
  // New processes, one at a time: memory of the other loads would hide the memory of a stream.
  const streaming = isWanted(STREAMS) ? ordered.filter(({ hasServerPerSession }) => hasServerPerSession !== true) : [];
  for (const target of streaming) {
    const alone = await ProgramProcess.start(target);
    await sleep(IDLE_MS);
    await runLoad(STREAMS, [alone], { kind: "streams", streams: 1000 }, step);
    await alone.end(END_DEADLINE_MS);
  }
}

async function measureStarts(target: Target, step: string): Promise<void> {
  process.stderr.write(`${step}starts of ${target.name}\n`);
  const readyMs: number[] = [];
  const idleBytes: number[] = [];
  for (let start = 0; start < STARTS; start++) {
    const started = await ProgramProcess.start(target);
    readyMs.push(started.readyMs);
    await sleep(IDLE_MS);
    idleBytes.push(started.memoryBytes());
    await started.end(END_DEADLINE_MS);
  }
  add(START, target.name, "ready ms", median(readyMs));
  add(START, target.name, "idle RSS MB", median(idleBytes) / 1e6);
}

type Kind<T> = T extends Load ? Omit<T, "sides" | "seconds"> : never;

/** Runs a load in a process of its own, so that the work of this one does not add to the latencies. */
async function runLoad(group: string, running: readonly ProgramProcess[], kind: Kind<Load>, step: string): Promise<void> {
  process.stderr.write(`${step}${group}\n`);
  const sides = running.map(({ port, pid, program }) => ({ port, pid, token: program.token }));
  const load = spawn(process.execPath, [join(import.meta.dirname, "load-process.ts"), JSON.stringify({ ...kind, sides, seconds })], {
    stdio: ["ignore", "pipe", "inherit"],
    timeout: (seconds + 2) * 1000 * sides.length + GRACE_MS,
    killSignal: "SIGKILL",
  });
  const [output] = await Promise.all([text(load.stdout), once(load, "close")]);
  if (load.exitCode !== 0) throw new Error(`the load failed: ${group}`);
  const { measured, errors } = JSON.parse(output) as LoadResult;
  problems.push(...errors.map((error) => `PROBLEM: ${group}: ${error}`));
  for (const [index, ofSide] of measured.entries()) {
    for (const [title, value] of Object.entries(ofSide)) add(group, running[index]?.program.name ?? "", title, value);
  }
}

function add(group: string, target: string, title: string, value: number): void {
  const ofGroup = (results[group] ??= {});
  const ofTitle = (ofGroup[title] ??= {});
  (ofTitle[target] ??= []).push(value);
}

/** A row for each target, and one for each ratio of the first one to another. */
function groupTable(group: string): string {
  const titles = Object.keys(results[group] ?? {});
  const rows = targets.map(({ name }) => [name].concat(titles.map((title) => significant(median(valuesOf(group, title, name))))));
  const [subject, ...others] = targets.map(({ name }) => name);
  const ratioText = (title: string, other: string): string => {
    const { ratio, lower, upper } = ratioOf(group, title, subject ?? "", other);
    if (!Number.isFinite(ratio) || ratio === 0) return "-";
    // One round has no interval.
    return Number.isNaN(lower) ? ratio.toFixed(3) : `${ratio.toFixed(3)} (${lower.toFixed(3)} to ${upper.toFixed(3)})`;
  };
  const ratioRows = others.map((other) => [`${subject} / ${other}`].concat(titles.map((title) => ratioText(title, other))));
  return table(["", ...titles], [...rows, ...ratioRows]);
}

function slowerCalls(): string[] {
  const [now, before] = targets.map(({ name }) => name);
  return allCalls.flatMap(({ title }) => {
    const { lower } = ratioOf(title, "calls/s", now ?? "", before ?? "");
    return lower >= LEAST_RATIO ? [] : [`MISSED: ${title}: calls/s may be ${lower.toFixed(3)} of those before, below ${LEAST_RATIO}`];
  });
}

function ratioOf(group: string, title: string, one: string, other: string): RatioEstimate {
  return estimateRatio(valuesOf(group, title, one), valuesOf(group, title, other));
}

function valuesOf(group: string, title: string, target: string): readonly number[] {
  return results[group]?.[title]?.[target] ?? [];
}

function callsOf(resultBytes: number, connections: number): Calls {
  const size = resultBytes === LARGE_BYTES ? "1 MB" : `${resultBytes} B`;
  return { title: `${size}, ${connections} connection${connections === 1 ? "" : "s"}`, resultBytes, connections };
}

function significant(value: number): string {
  return Number.isNaN(value) ? "-" : value.toFixed(value >= 1000 ? 0 : value >= 10 ? 1 : 3);
}

function isWanted(title: string): boolean {
  return title.includes(values.only);
}

function words(flags: string): string[] {
  return flags.split(" ").filter((word) => word !== "");
}
