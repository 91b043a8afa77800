// Runs attacks of clients and servers on the sidecar, and prints their effects on it and on a bystander; see docs/HOSTILE.md.

import { randomInt } from "node:crypto";
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { positive } from "../chaos/options.ts";
import { runHostile } from "./hostile-run.ts";
import { misses } from "./judge.ts";
import { cells, formatMisses, formatTable } from "./table.ts";

// Exit handlers kill all processes that the run has started.
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => process.exit(1));
}

const { values } = parseArgs({
  options: {
    seconds: { type: "string" },
    seed: { type: "string", default: String(randomInt(1, 1_000_000)) },
    only: { type: "string" },
    log: { type: "string" },
    table: { type: "string" },
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

const missed = results.filter((result) => misses(result).length > 0).length;
const report = `seed ${seed}, Node ${process.version}: ${results.length} attacks, ${missed} of them missed a bar\n\n${formatTable(results)}\n`;
process.stdout.write(report);
if (values.table !== undefined) writeFileSync(values.table, report);
process.exit(missed === 0 ? 0 : 1);
