// Compares calls without a session (MCP 2026-07-28) with calls in a session, both by this build, in interleaved pairs; see README.md.

import { parseArgs } from "node:util";
import { compareLoads, PAIR_SCENARIOS, RatioTable } from "./pairs.ts";
import { thisBuild, withModernChild } from "./targets.ts";

const LEAST_RATIO = 0.9;

const { values } = parseArgs({
  options: {
    pairs: { type: "string", default: "9" },
    seconds: { type: "string", default: "2" },
  },
});
const seconds = Number(values.seconds);
const pairCount = Number(values.pairs);

// Exit handlers kill the targets.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

const table = new RatioTable("without / with a session");
const sessions = thisBuild();
for (const [server, target] of [
  ["a server with sessions", thisBuild()],
  ["a server without sessions", withModernChild()],
] as const) {
  for (const scenario of PAIR_SCENARIOS) {
    const title = `${scenario.title}, ${server}`;
    const pairs = await compareLoads(title, pairCount, seconds, scenario, [{ target, era: "modern" }, { target: sessions }]);
    // The run fails if the ratio may be below this limit.
    if (table.addLoads({ ...scenario, title }, pairs).lower < LEAST_RATIO) process.exitCode = 1;
  }
}
process.stdout.write(table.toString());
