// Compares this build with a page that is not open with the same build without a page, in interleaved pairs; see README.md.

import { parseArgs } from "node:util";
import { compareIdle, megabytes } from "./idle.ts";
import { compareLoads, PAIR_SCENARIOS, RatioTable } from "./pairs.ts";
import { thisBuild } from "./targets.ts";

const LEAST_RATIO = 0.95;
/** The memory that the page may add to an idle sidecar before it is opened: the noise of pairs, and its code. */
const MOST_IDLE_BYTES = 1_000_000;
/** The same from each second on, as a container does. */
const READ_PATH = "/healthz";

const { values } = parseArgs({
  options: {
    pairs: { type: "string", default: "9" },
    seconds: { type: "string", default: "4" },
  },
});
const pairCount = Number(values.pairs);
const withPage = thisBuild(["--page", "on"]);
const without = thisBuild(["--page", "off"]);

// Exit handlers kill the targets.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

const idle = await compareIdle(withPage, without, "/", pairCount);
if (idle.beforeReadBytes > MOST_IDLE_BYTES) process.exitCode = 1;

const table = new RatioTable("with the page / without it");
const [small] = PAIR_SCENARIOS;
if (small === undefined) throw new Error("there is no scenario");
const sides = [
  { target: withPage, readPath: READ_PATH },
  { target: without, readPath: READ_PATH },
] as const;
const pairs = await compareLoads(small.title, pairCount, Number(values.seconds), small, sides);
// The run fails if the ratio may be below this limit.
if (table.addLoads(small, pairs).lower < LEAST_RATIO) process.exitCode = 1;
process.stdout.write(table.toString());
process.stdout.write(
  `idle memory with the page: ${megabytes(idle.beforeReadBytes)} more before it is opened, ${megabytes(idle.afterReadBytes)} more after it (medians)\n`,
);
