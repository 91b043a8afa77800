// Compares this build with another build, in interleaved pairs; see README.md.

import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { compareLoads, comparePairs, PAIR_SCENARIOS, RatioTable } from "./pairs.ts";
import { TargetProcess } from "./target-process.ts";
import { otherBuild, type Target } from "./targets.ts";

const LEAST_RATIO = 0.95;
/** Ready to measurement of the idle memory. */
const IDLE_MS = 1000;
/** A start takes less time than a load and varies more, so it has more pairs. */
const STARTS_PER_PAIR = 3;

const { values } = parseArgs({
  options: {
    before: { type: "string" },
    pairs: { type: "string", default: "9" },
    seconds: { type: "string", default: "2" },
    "starts-only": { type: "boolean", default: false },
  },
});
if (values.before === undefined) throw new Error("--before is missing; set it to the main.js of the other build");
const claw = otherBuild("claw", resolve(import.meta.dirname, "..", "dist", "main.js"));
const before = otherBuild("before", resolve(values.before));
const seconds = Number(values.seconds);
const pairCount = Number(values.pairs);

// Exit handlers kill the targets.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

const table = new RatioTable("this / before");
const startPairs = await comparePairs(
  "start and idle memory",
  STARTS_PER_PAIR * pairCount,
  () => measureStart(claw),
  () => measureStart(before),
);
table.add(
  "exec to ready, ms",
  startPairs.map(([now, then]) => now.readyMs / then.readyMs),
);
table.add(
  "idle RSS",
  startPairs.map(([now, then]) => now.rssBytes / then.rssBytes),
);
for (const scenario of values["starts-only"] ? [] : PAIR_SCENARIOS) {
  const pairs = await compareLoads(scenario.title, pairCount, seconds, scenario, [{ target: claw }, { target: before }]);
  // The run fails if the ratio may be below this limit.
  if (table.addLoads(scenario, pairs).lower < LEAST_RATIO) process.exitCode = 1;
}
process.stdout.write(table.toString());

interface Start {
  readonly readyMs: number;
  readonly rssBytes: number;
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
