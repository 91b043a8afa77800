// The bars for claw, and their results.

import { IDLE_SESSIONS } from "./idle-sessions.ts";
import type { CallsResult } from "./load-contract.ts";
import { LARGE_RESULT_BYTES, SMALL_RESULT_BYTES } from "./measure.ts";
import type { Results, TargetResult } from "./results.ts";
import { median, medianRatio, sum } from "./statistics.ts";

const BYTES_PER_MB = 1e6;

type Sense = "at least" | "at most" | "below";

export interface Bar {
  title: string;
  /** NaN if it could not be measured. The bar is then missed. */
  value: number;
  unit: string;
  sense: Sense;
  limit: number;
  met: boolean;
}

export function computeBars({ targets: results, idleSessions }: Results): Bar[] {
  const claw = results.filter(({ role }) => role === "subject");
  const bare = results.filter(({ role }) => role === "ceiling");
  const guarded = results.filter(({ role }) => role === "guarded");
  const peers = results.filter(({ role }) => role === "peer");
  const supergateway = peers.filter(({ name }) => name === "supergateway");

  const overSupergateway = medianRatio(rateRounds(claw, 16, SMALL_RESULT_BYTES), rateRounds(supergateway, 16, SMALL_RESULT_BYTES));
  const overBare = medianRatio(rateRounds(claw, 16, SMALL_RESULT_BYTES), rateRounds(bare, 16, SMALL_RESULT_BYTES));
  const guardedOverOpen = medianRatio(rateRounds(guarded, 16, SMALL_RESULT_BYTES), rateRounds(claw, 16, SMALL_RESULT_BYTES));
  const p50OverBare = medianRatio(p50Rounds(claw[0]), p50Rounds(bare[0]));
  const overBestPeer = (connections: number): number =>
    medianRatio(rateRounds(claw, connections, LARGE_RESULT_BYTES), rateRounds(peers, connections, LARGE_RESULT_BYTES));
  const readyMs = median(claw[0]?.readyMs ?? []);
  const idleRssMb = median(claw[0]?.idleRssBytes ?? []) / BYTES_PER_MB;
  const progress = claw[0]?.progress ?? [];
  const besideIdle = medianRatio((idleSessions?.beside ?? []).map(rateOf), (idleSessions?.alone ?? []).map(rateOf));
  const lost = progress.length === 0 ? Number.NaN : sum(progress.map(({ lostPerCall }) => lostPerCall));

  return [
    bar("calls/s, claw / supergateway, 16 connections, 100 B", overSupergateway, "x", "at least", 6),
    bar("calls/s, claw / bare, 16 connections, 100 B", overBare, "x", "at least", 0.75),
    bar("calls/s, every policy on / all off, 16 connections, 100 B", guardedOverOpen, "x", "at least", 0.8),
    bar(`calls/s, claw beside ${IDLE_SESSIONS} idle sessions / alone, 16 connections, 100 B`, besideIdle, "x", "at least", 0.95),
    bar("p50, claw / bare, 1 connection, 100 B", p50OverBare, "x", "at most", 1.5),
    bar("calls/s, claw / best peer, 1 connection, 1 MB", overBestPeer(1), "x", "at least", 1.5),
    bar("calls/s, claw / best peer, 16 connections, 1 MB", overBestPeer(16), "x", "at least", 1.5),
    bar("claw, exec to ready", readyMs, " ms", "below", 350),
    bar("claw, idle RSS", idleRssMb, " MB", "below", 100),
    bar("claw, progress notifications lost", lost, "", "at most", 0),
  ];
}

function bar(title: string, value: number, unit: string, sense: Sense, limit: number): Bar {
  return { title, value, unit, sense, limit, met: isMet(value, sense, limit) };
}

function isMet(value: number, sense: Sense, limit: number): boolean {
  if (sense === "at least") return value >= limit;
  return sense === "at most" ? value <= limit : value < limit;
}

/** Returns the best rate of these targets in each round. */
function rateRounds(results: readonly TargetResult[], connections: number, resultBytes: number): number[] {
  const rounds = results.map((result) => roundsOf(result, connections, resultBytes).map(rateOf));
  const count = Math.max(0, ...rounds.map(({ length }) => length));
  return Array.from({ length: count }, (_, round) => Math.max(...rounds.map((rates) => rates[round] ?? Number.NEGATIVE_INFINITY)));
}

function rateOf({ callsPerSecond }: CallsResult): number {
  return callsPerSecond;
}

function p50Rounds(result: TargetResult | undefined): number[] {
  return roundsOf(result, 1, SMALL_RESULT_BYTES).map(({ p50Ms }) => p50Ms);
}

function roundsOf(result: TargetResult | undefined, connections: number, resultBytes: number): readonly CallsResult[] {
  const scenario = result?.scenarios.find((candidate) => candidate.connections === connections && candidate.resultBytes === resultBytes);
  return scenario?.rounds ?? [];
}
