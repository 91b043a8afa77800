// Compares this build with metrics that are scraped each second with the same build without metrics, in interleaved pairs; see README.md.

import { parseArgs } from "node:util";
import { compareIdle, megabytes } from "./idle.ts";
import { compareLoads, PAIR_SCENARIOS, RatioTable } from "./pairs.ts";
import { thisBuild } from "./targets.ts";

const LEAST_RATIO = 0.95;
/** The memory that metrics may add to an idle sidecar, before the first scrape. */
const MOST_IDLE_BYTES = 2_000_000;

const { values } = parseArgs({
  options: {
    pairs: { type: "string", default: "9" },
    seconds: { type: "string", default: "4" },
  },
});
const seconds = Number(values.seconds);
const pairCount = Number(values.pairs);
const scraped = thisBuild();
const without = thisBuild(["--metrics", "off"]);

// Exit handlers kill the targets.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

const idle = await compareIdle(scraped, without, "/metrics", pairCount);
if (idle.beforeReadBytes > MOST_IDLE_BYTES) process.exitCode = 1;

const table = new RatioTable("scraped each second / without metrics");
for (const scenario of PAIR_SCENARIOS) {
  const pairs = await compareLoads(scenario.title, pairCount, seconds, scenario, [
    { target: scraped, readPath: "/metrics" },
    { target: without, readPath: "/healthz" },
  ]);
  // The run fails if the ratio may be below this limit.
  if (table.addLoads(scenario, pairs).lower < LEAST_RATIO) process.exitCode = 1;
}
process.stdout.write(table.toString());
process.stdout.write(
  `idle memory with metrics: ${megabytes(idle.beforeReadBytes)} more before the first scrape, ${megabytes(idle.afterReadBytes)} more after it (medians)\n`,
);
