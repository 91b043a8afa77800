// Runs the sidecar with faults under load, and prints the outcomes of all requests: `run.ts [soak]`; see docs/CHAOS.md.

import { parseArgs } from "node:util";
import { endWithSignals, positive, someSeed } from "../bench/command.ts";
import { freePort } from "../test/support/open-sockets.ts";
import { failures, formatExamples, formatReport, growth, runChaos } from "./chaos-run.ts";
import { SERVER_ERAS } from "./contract.ts";
import { ALL_FAULT_KINDS, type FaultKind, faultsOf } from "./faults.ts";

/** Exits of servers, and ends of sessions, streams and connections, as in a long run in production. */
const SOAK_FAULTS = "sigkill,crash,exit_cleanly,hang,notification_flood,garbage,disconnect_storm,delete_during_calls,come_back,burst";
const SOAK_GAP_MS = 1000;

endWithSignals();
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: "string" },
    seed: { type: "string", default: someSeed() },
    faults: { type: "string" },
    "server-era": { type: "string", default: "legacy" },
    log: { type: "string" },
  },
});
const isSoak = positionals[0] === "soak";
const { seconds = isSoak ? "600" : "60", faults = isSoak ? SOAK_FAULTS : "all" } = values;
const era = SERVER_ERAS.find((each) => each === values["server-era"]);
if (era === undefined) throw new Error(`--server-era must be one of ${SERVER_ERAS.join(", ")}`);
const seed = positive("--seed", values.seed);
const durationMs = positive("--seconds", seconds) * 1000;
const kinds = faultsOf(era, faults === "all" ? ALL_FAULT_KINDS : faults.split(",").map(findKind));

process.stderr.write(`${seconds} s, seed ${seed} ...\n`);
const result = await runChaos({
  seed,
  durationMs,
  kinds,
  era,
  logFile: values.log,
  ...(isSoak ? { gapMs: SOAK_GAP_MS, inspectorPort: await freePort() } : {}),
});
process.stderr.write(formatExamples(result));
const command = isSoak ? "soak" : "chaos";
const options = `--seconds ${seconds} --seed ${seed} --faults ${faults} --server-era ${era}`;
process.stdout.write(`\`npm run ${command} -- ${options}\`, Node ${process.version}:\n\n${formatReport(result)}\n`);
const failed = [...failures(result), ...(isSoak ? growth(result) : [])];
for (const failure of failed) process.stderr.write(`FAILED: ${failure}\n`);
process.exit(failed.length === 0 ? 0 : 1);

function findKind(name: string): FaultKind {
  const kind = ALL_FAULT_KINDS.find((candidate) => candidate === name);
  if (kind === undefined) throw new Error(`unknown fault ${name}; expected one of ${["all", ...ALL_FAULT_KINDS].join(", ")}`);
  return kind;
}
