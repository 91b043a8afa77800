// Compares this build with another build, in interleaved pairs; see README.md.

import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { isCallsResult, type Scenario } from "./load-contract.ts";
import { runLoad } from "./run-load.ts";
import { estimateRatio } from "./statistics.ts";
import { TargetProcess } from "./target-process.ts";
import { otherBuild, type Target, TARGETS } from "./targets.ts";

const WARMUP_MS = 1000;
const LARGE_BYTES = 1_000_000;
const LEAST_RATIO = 0.95;

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
const [claw] = TARGETS;
if (claw === undefined) throw new Error("there is no target");
const before = otherBuild("before", resolve(values.before));
const durationMs = Number(values.seconds) * 1000;

// Exit handlers kill the targets.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

const lines: string[] = [];
let lowest = Number.POSITIVE_INFINITY;
for (const scenario of SCENARIOS) {
  const ratios: number[] = [];
  for (let pair = 1; pair <= Number(values.pairs); pair++) {
    // The builds alternate as the first of a pair.
    const order = pair % 2 === 0 ? [claw, before] : [before, claw];
    const rates = new Map<Target, number>();
    for (const target of order) rates.set(target, await measure(target, scenario));
    const ratio = (rates.get(claw) ?? Number.NaN) / (rates.get(before) ?? Number.NaN);
    ratios.push(ratio);
    process.stderr.write(
      `${scenario.title}, pair ${pair}: ${[...rates.values()].map(Math.round).join(" and ")} calls/s, ${ratio.toFixed(3)}x\n`,
    );
  }
  const { ratio, lower, upper } = estimateRatio(ratios);
  lowest = Math.min(lowest, lower);
  lines.push(`| ${scenario.title} | ${ratio.toFixed(3)} | ${lower.toFixed(3)} to ${upper.toFixed(3)} |`);
}
// The run fails if the ratio may be below this limit.
if (lowest < LEAST_RATIO) process.exitCode = 1;
process.stdout.write(
  `| results | calls/s, this / before | 95 % interval of ${values.pairs} pairs |\n| --- | --- | --- |\n${lines.join("\n")}\n`,
);

/** Measures a build in a new process, so that its memory does not depend on earlier runs. @returns calls per second. */
async function measure(target: Target, scenario: Scenario): Promise<number> {
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
