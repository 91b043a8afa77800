// Compares one sidecar with one and with three behind HAProxy, in interleaved pairs; see README.md.

import { parseArgs } from "node:util";
import { compareLoads, PAIR_SCENARIOS, RatioTable } from "./pairs.ts";
import { behindHaproxy, thisBuild } from "./targets.ts";

/** At one connection, calls/s is the inverse of the time of a call. */
const SCENARIOS = [{ title: "100 B, 1 connection", connections: 1, resultBytes: 100 }, ...PAIR_SCENARIOS.slice(0, 2)];

const { values } = parseArgs({
  options: {
    pairs: { type: "string", default: "5" },
    seconds: { type: "string", default: "3" },
  },
});
const [pairCount, seconds] = [Number(values.pairs), Number(values.seconds)];

// Exit handlers kill the targets.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

for (const [sides, target] of [
  ["one behind HAProxy / one direct", behindHaproxy(1)],
  ["three behind HAProxy / one direct", behindHaproxy(3)],
] as const) {
  const table = new RatioTable(sides);
  for (const scenario of SCENARIOS) {
    const title = `${scenario.title}, ${sides}`;
    const pairs = await compareLoads(title, pairCount, seconds, scenario, [{ target }, { target: thisBuild() }]);
    table.addSpeed(scenario, pairs);
    table.addCpu(scenario, pairs);
  }
  process.stdout.write(`${table.toString()}\n`);
}
