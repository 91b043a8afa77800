// Measurements in interleaved pairs, so that a slow period of the machine affects both sides, and the table of their ratios.

import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { isCallsResult, type Scenario } from "./load-contract.ts";
import { runLoad } from "./run-load.ts";
import { estimateRatio, type RatioEstimate } from "./statistics.ts";
import { TargetProcess } from "./target-process.ts";
import type { Target } from "./targets.ts";

const WARMUP_MS = 1000;
const LARGE_BYTES = 1_000_000;

export const PAIR_SCENARIOS: readonly (Scenario & { readonly title: string })[] = [
  { title: "100 B", connections: 16, resultBytes: 100 },
  { title: "1 MB plain", connections: 4, resultBytes: LARGE_BYTES },
  { title: "1 MB of JSON in text", connections: 4, resultBytes: LARGE_BYTES, content: "json" },
];

interface Load {
  readonly callsPerSecond: number;
  readonly p99Ms: number;
  readonly rssBytes: number;
}

/** Measures both sides in each pair. @returns the pairs, the first side first. */
export async function comparePairs<T>(
  title: string,
  count: number,
  measureOne: () => Promise<T>,
  measureOther: () => Promise<T>,
): Promise<[T, T][]> {
  const pairs: [T, T][] = [];
  for (let pair = 1; pair <= count; pair++) {
    // The sides alternate as the first of a pair.
    const isOneFirst = pair % 2 !== 0;
    const first = await (isOneFirst ? measureOne : measureOther)();
    const second = await (isOneFirst ? measureOther : measureOne)();
    const [one, other] = isOneFirst ? [first, second] : [second, first];
    pairs.push([one, other]);
    process.stderr.write(`${title}, pair ${pair}: ${JSON.stringify(one)} and ${JSON.stringify(other)}\n`);
  }
  return pairs;
}

/**
 * Measures a target in a new process, so that its memory does not depend on earlier runs.
 *
 * @param scrapeMs the interval of requests for its metrics; undefined for none.
 */
export async function measureLoad(target: Target, scenario: Scenario, durationMs: number, scrapeMs?: number): Promise<Load> {
  const running = await TargetProcess.start(target);
  let scrapes: NodeJS.Timeout | undefined;
  try {
    if (scrapeMs !== undefined) {
      // The first one loads code.
      await scrape(running.port, target);
      scrapes = setInterval(() => void scrape(running.port, target), scrapeMs);
    }
    const { connections, resultBytes, content = "plain", era = "legacy" } = scenario;
    const endpoint = { port: running.port, path: "/mcp", token: target.token };
    const config = { kind: "calls", ...endpoint, connections, resultBytes, content, era, warmupMs: WARMUP_MS, durationMs } as const;
    const { callsPerSecond, p99Ms, errors, firstError } = await runLoad(config, isCallsResult);
    if (errors > 0) throw new Error(`${target.name}: ${errors} errors, first: ${firstError}`);
    return { callsPerSecond, p99Ms, rssBytes: running.rssBytes() };
  } finally {
    clearInterval(scrapes);
    await running.stop();
  }
}

/** Reads the metrics of a target. It shares the cores with the target, so it does as little as possible. */
export async function scrape(port: number, { token }: Pick<Target, "token">): Promise<void> {
  const request = get({ host: "127.0.0.1", port, path: "/metrics", headers: { Authorization: `Bearer ${token}` } });
  const [response] = (await once(request, "response")) as [IncomingMessage];
  response.resume();
  await once(response, "end");
  if (response.statusCode !== 200) throw new Error(`no metrics: ${response.statusCode}`);
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
  addLoads(
    { title, connections }: { readonly title: string; readonly connections: number },
    pairs: readonly [Load, Load][],
  ): RatioEstimate {
    const speed = this.add(
      `${title}, calls/s`,
      pairs.map(([one, other]) => one.callsPerSecond / other.callsPerSecond),
    );
    this.add(
      `${title}, p99 at ${connections} connections`,
      pairs.map(([one, other]) => one.p99Ms / other.p99Ms),
    );
    this.add(
      `${title}, RSS after the load`,
      pairs.map(([one, other]) => one.rssBytes / other.rssBytes),
    );
    return speed;
  }

  toString(): string {
    return `${this.#lines.join("\n")}\n`;
  }
}
