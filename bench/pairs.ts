// Measurements in interleaved pairs, so that a slow period of the machine affects both sides, and the table of their ratios.

import { isTurnsResult, type Scenario, type Side, type TurnsSummary } from "./load-contract.ts";
import { runLoad } from "./run-load.ts";
import { estimateRatio, type RatioEstimate } from "./statistics.ts";
import { TargetProcess } from "./target-process.ts";
import type { Target } from "./targets.ts";

const WARMUP_MS = 2000;
const TURN_MS = 1000;
const LARGE_BYTES = 1_000_000;

type TitledScenario = Pick<Scenario, "connections"> & { readonly title: string };

export const PAIR_SCENARIOS: readonly (Scenario & TitledScenario)[] = [
  { title: "100 B", connections: 16, resultBytes: 100 },
  { title: "1 MB plain", connections: 4, resultBytes: LARGE_BYTES },
  { title: "1 MB of JSON in text", connections: 4, resultBytes: LARGE_BYTES, content: "json" },
];

interface Load extends TurnsSummary {
  readonly rssBytes: number;
}

/** Measures both sides in each pair, one after the other. @returns the pairs, the first side first. */
export async function comparePairs<T>(
  title: string,
  count: number,
  measureOne: () => Promise<T>,
  measureOther: () => Promise<T>,
): Promise<[T, T][]> {
  return measurePairs(title, count, [measureOne, measureOther], async ([first, second]) => [await first(), await second()]);
}

/** Measures pairs. The sides alternate as the first of a pair. @returns the pairs, in the given order. */
async function measurePairs<Measured, T>(
  title: string,
  count: number,
  [one, other]: readonly [Measured, Measured],
  measure: (pair: readonly [Measured, Measured]) => Promise<[T, T]>,
): Promise<[T, T][]> {
  const pairs: [T, T][] = [];
  for (let pair = 1; pair <= count; pair++) {
    const isOneFirst = pair % 2 !== 0;
    const [first, second] = await measure(isOneFirst ? [one, other] : [other, one]);
    const measured: [T, T] = isOneFirst ? [first, second] : [second, first];
    pairs.push(measured);
    process.stderr.write(`${title}, pair ${pair}: ${measured.map((each) => JSON.stringify(each)).join(" and ")}\n`);
  }
  return pairs;
}

/** A side of compared loads. */
export interface ComparedTarget {
  readonly target: Target;
  readonly era?: "legacy" | "modern";
  /** A path that is read once a second. */
  readonly readPath?: string;
}

/** Compares two targets under load. The measured time of each side in each pair is `seconds`. */
export async function compareLoads(
  title: string,
  count: number,
  seconds: number,
  scenario: Scenario,
  targets: readonly [ComparedTarget, ComparedTarget],
): Promise<[Load, Load][]> {
  return measurePairs(title, count, targets, async (pair) => measureTurns(seconds, scenario, pair));
}

/** Both targets are new processes, so that their memory does not depend on earlier pairs. */
async function measureTurns(
  seconds: number,
  scenario: Scenario,
  [one, other]: readonly [ComparedTarget, ComparedTarget],
): Promise<[Load, Load]> {
  await using first = await TargetProcess.start(one.target);
  await using second = await TargetProcess.start(other.target);
  const sides = [sideOf(first, one, scenario), sideOf(second, other, scenario)] as const;
  const config = { kind: "turns", sides, turns: seconds, warmupMs: WARMUP_MS, durationMs: TURN_MS } as const;
  const [ofFirst, ofSecond] = (await runLoad(config, isTurnsResult)).sides;
  return [
    { ...ofFirst, rssBytes: first.rssBytes() },
    { ...ofSecond, rssBytes: second.rssBytes() },
  ];
}

function sideOf({ port, pid }: TargetProcess, { target, ...rest }: ComparedTarget, scenario: Scenario): Side {
  return { ...scenario, ...rest, port, pid, path: "/mcp", token: target.token };
}

/** Ratios with their 95 % intervals, as a Markdown table. */
export class RatioTable {
  readonly #lines: string[];

  /** @param sides the names of both sides. */
  constructor(sides: string) {
    this.#lines = [`| quantity | ${sides} | 95 % interval |`, "| --- | --- | --- |"];
  }

  add(title: string, ratios: readonly number[]): RatioEstimate {
    const estimate = estimateRatio(ratios);
    const { ratio, lower, upper } = estimate;
    this.#lines.push(`| ${title} | ${ratio.toFixed(3)} | ${lower.toFixed(3)} to ${upper.toFixed(3)} |`);
    return estimate;
  }

  /** Adds the ratios of speed, latency and memory. @returns that of the speed. */
  addLoads(scenario: TitledScenario, pairs: readonly [Load, Load][]): RatioEstimate {
    const speed = this.addSpeed(scenario, pairs);
    this.add(
      `${scenario.title}, RSS after the load`,
      pairs.map(([one, other]) => one.rssBytes / other.rssBytes),
    );
    return speed;
  }

  /** Adds the ratios of speed and latency. @returns that of the speed. */
  addSpeed({ title, connections }: TitledScenario, pairs: readonly [Load, Load][]): RatioEstimate {
    const speed = this.add(
      `${title}, calls/s`,
      pairs.map(([one, other]) => one.callsPerSecond / other.callsPerSecond),
    );
    this.add(
      `${title}, p99 at ${connections} connections`,
      pairs.map(([one, other]) => one.p99Ms / other.p99Ms),
    );
    return speed;
  }

  /** Adds the ratio of the CPU time, which depends less on other work of the machine. */
  addCpu({ title }: TitledScenario, pairs: readonly [Load, Load][]): void {
    this.add(
      `${title}, CPU time of a call`,
      pairs.map(([one, other]) => one.cpuMsPerCall / other.cpuMsPerCall),
    );
  }

  toString(): string {
    return `${this.#lines.join("\n")}\n`;
  }
}
