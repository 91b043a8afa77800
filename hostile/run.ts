// Runs attacks of clients and servers on the sidecar, and prints their effects on it and on a bystander; see docs/CHAOS.md.

import { parseArgs } from "node:util";
import { endWithSignals, positive, someSeed } from "../bench/command.ts";
import { cells, formatMisses, formatTable, runHostile } from "./hostile-run.ts";

endWithSignals();
const { values } = parseArgs({
  options: {
    seconds: { type: "string" },
    seed: { type: "string", default: someSeed() },
    only: { type: "string" },
    log: { type: "string" },
  },
});
const seed = positive("--seed", values.seed);
process.stderr.write(`seed ${seed}\n`);
const results = await runHostile({
  seed,
  durationMs: values.seconds === undefined ? undefined : positive("--seconds", values.seconds) * 1000,
  only: values.only,
  logFile: values.log,
  onResult: (result) => process.stderr.write(`${cells(result).join(" | ")}\n${formatMisses([result])}`),
});
const missed = results.filter(({ misses }) => misses.length > 0).length;
process.stdout.write(`seed ${seed}, Node ${process.version}: ${results.length} attacks, ${missed} of them missed a bar\n\n`);
process.stdout.write(`${formatTable(results)}\n`);
process.exit(missed === 0 ? 0 : 1);
