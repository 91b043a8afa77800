// Runs the sidecar with faults under load, and prints the outcomes of all requests; see docs/CHAOS.md.

import { parseArgs } from "node:util";
import { endWithSignals, positive, someSeed } from "../bench/command.ts";
import { failures, formatExamples, formatReport, runChaos } from "./chaos-run.ts";
import { SERVER_ERAS } from "./contract.ts";
import { ALL_FAULT_KINDS, type FaultKind, faultsOf } from "./faults.ts";

endWithSignals();
const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "60" },
    seed: { type: "string", default: someSeed() },
    faults: { type: "string", default: "all" },
    "server-era": { type: "string", default: "legacy" },
    log: { type: "string" },
  },
});
const era = SERVER_ERAS.find((each) => each === values["server-era"]);
if (era === undefined) throw new Error(`--server-era must be one of ${SERVER_ERAS.join(", ")}`);
const seed = positive("--seed", values.seed);
const durationMs = positive("--seconds", values.seconds) * 1000;
const kinds = faultsOf(era, values.faults === "all" ? ALL_FAULT_KINDS : values.faults.split(",").map(findKind));

process.stderr.write(`${values.seconds} s, seed ${seed} ...\n`);
const result = await runChaos({ seed, durationMs, kinds, era, logFile: values.log });
process.stderr.write(formatExamples(result));
const options = `--seconds ${values.seconds} --seed ${seed} --faults ${values.faults} --server-era ${era}`;
process.stdout.write(`\`npm run chaos -- ${options}\`, Node ${process.version}:\n\n${formatReport(result)}\n`);
const failed = failures(result);
for (const failure of failed) process.stderr.write(`FAILED: ${failure}\n`);
process.exit(failed.length === 0 ? 0 : 1);

function findKind(name: string): FaultKind {
  const kind = ALL_FAULT_KINDS.find((candidate) => candidate === name);
  if (kind === undefined) throw new Error(`unknown fault ${name}; expected one of ${["all", ...ALL_FAULT_KINDS].join(", ")}`);
  return kind;
}
