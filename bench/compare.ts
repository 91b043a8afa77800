// Compares this build with another build, in interleaved pairs; see README.md.

import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { isCallsResult, type Scenario } from "./load-contract.ts";
import { runLoad } from "./run-load.ts";
import { estimateRatio, type RatioEstimate } from "./statistics.ts";
import { TargetProcess } from "./target-process.ts";
import { otherBuild, type Target } from "./targets.ts";

const WARMUP_MS = 1000;
const LARGE_BYTES = 1_000_000;
const LEAST_RATIO = 0.95;
/** Ready to measurement of the idle memory. */
const IDLE_MS = 1000;
/** A start takes less time than a load and varies more, so it has more pairs. */
const STARTS_PER_PAIR = 3;

const SCENARIOS: readonly (Scenario & { readonly title: string })[] = [
  { title: "100 B", connections: 16, resultBytes: 100 },
  { title: "1 MB plain", connections: 4, resultBytes: LARGE_BYTES },
  { title: "1 MB of JSON in text", connections: 4, resultBytes: LARGE_BYTES, content: "json" },
];

const { values } = parseArgs({
  options: {
    before: { type: "string" },
    pairs: { type: "string", default: "9" },
    seconds: { type: "string", default: "2" },
  },
});
if (values.before === undefined) throw new Error("--before is missing; set it to the main.js of the other build");
const claw = otherBuild("claw", resolve(import.meta.dirname, "..", "dist", "main.js"));
const before = otherBuild("before", resolve(values.before));
const durationMs = Number(values.seconds) * 1000;
const pairCount = Number(values.pairs);

// Exit handlers kill the targets.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

const lines: string[] = [];
const startPairs = await comparePairs("start and idle memory", STARTS_PER_PAIR * pairCount, measureStart);
addLine(
  "exec to ready, ms",
  startPairs.map(([now, then]) => now.readyMs / then.readyMs),
);
addLine(
  "idle RSS",
  startPairs.map(([now, then]) => now.rssBytes / then.rssBytes),
);
for (const scenario of SCENARIOS) {
  const pairs = await comparePairs(scenario.title, pairCount, async (target) => measureLoad(target, scenario));
  const { lower } = addLine(
    `${scenario.title}, calls/s`,
    pairs.map(([now, then]) => now / then),
  );
  // The run fails if the ratio may be below this limit.
  if (lower < LEAST_RATIO) process.exitCode = 1;
}
process.stdout.write(`| quantity | this / before | 95 % interval |\n| --- | --- | --- |\n${lines.join("\n")}\n`);

interface Start {
  readonly readyMs: number;
  readonly rssBytes: number;
}

/** Measures both builds in each pair. @returns the pairs, this build first. */
async function comparePairs<T>(title: string, count: number, measure: (target: Target) => Promise<T>): Promise<[T, T][]> {
  const pairs: [T, T][] = [];
  for (let pair = 1; pair <= count; pair++) {
    // The builds alternate as the first of a pair.
    const thisFirst = pair % 2 !== 0;
    const first = await measure(thisFirst ? claw : before);
    const second = await measure(thisFirst ? before : claw);
    const [now, then] = thisFirst ? [first, second] : [second, first];
    pairs.push([now, then]);
    process.stderr.write(`${title}, pair ${pair}: ${JSON.stringify(now)} and ${JSON.stringify(then)}\n`);
  }
  return pairs;
}

function addLine(title: string, ratios: readonly number[]): RatioEstimate {
  const estimate = estimateRatio(ratios);
  const { ratio, lower, upper } = estimate;
  lines.push(`| ${title} | ${ratio.toFixed(3)} | ${lower.toFixed(3)} to ${upper.toFixed(3)} |`);
  return estimate;
}

async function measureStart(target: Target): Promise<Start> {
  const running = await TargetProcess.start(target);
  try {
    await sleep(IDLE_MS);
    return { readyMs: running.readyMs, rssBytes: running.rssBytes() };
  } finally {
    await running.stop();
  }
}

/** Measures a build in a new process, so that its memory does not depend on earlier runs. @returns calls per second. */
async function measureLoad(target: Target, scenario: Scenario): Promise<number> {
  const running = await TargetProcess.start(target);
  try {
    const { connections, resultBytes, content = "plain" } = scenario;
    const endpoint = { port: running.port, path: "/mcp", token: target.token };
    const config = { kind: "calls", ...endpoint, connections, resultBytes, content, warmupMs: WARMUP_MS, durationMs } as const;
    const { callsPerSecond, errors, firstError } = await runLoad(config, isCallsResult);
    if (errors > 0) throw new Error(`${target.name}: ${errors} errors, first: ${firstError}`);
    return callsPerSecond;
  } finally {
    await running.stop();
  }
}
