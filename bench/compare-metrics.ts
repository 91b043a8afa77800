// Compares this build with metrics that are scraped each second with the same build without metrics, in interleaved pairs; see README.md.

import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { compareLoads, comparePairs, PAIR_SCENARIOS, RatioTable } from "./pairs.ts";
import { readPath } from "./read-path.ts";
import { median } from "./statistics.ts";
import { TargetProcess } from "./target-process.ts";
import { type Target, thisBuild } from "./targets.ts";

const LEAST_RATIO = 0.95;
const IDLE_MS = 1000;
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

const idle = await comparePairs(
  "idle memory",
  pairCount,
  () => measureIdle(scraped),
  () => measureIdle(without),
);
const more = median(idle.map(([one, other]) => one.rssBytes - other.rssBytes));
const afterScrape = median(idle.map(([one, other]) => one.scrapedBytes - other.rssBytes));
if (more > MOST_IDLE_BYTES) process.exitCode = 1;

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
  `idle memory with metrics: ${megabytes(more)} more before the first scrape, ${megabytes(afterScrape)} more after it (medians)\n`,
);

interface Idle {
  readonly rssBytes: number;
  /** After a scrape; the same without metrics. */
  readonly scrapedBytes: number;
}

async function measureIdle(target: Target): Promise<Idle> {
  const running = await TargetProcess.start(target);
  try {
    await sleep(IDLE_MS);
    const rssBytes = running.rssBytes();
    if (target === without) return { rssBytes, scrapedBytes: rssBytes };
    await readPath({ port: running.port, token: target.token }, "/metrics");
    await sleep(IDLE_MS);
    return { rssBytes, scrapedBytes: running.rssBytes() };
  } finally {
    await running.stop();
  }
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
