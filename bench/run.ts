// Compares claw-mcp-stdio with similar programs and with a bare bridge; see README.md.

import { writeFileSync } from "node:fs";
import { availableParallelism, cpus } from "node:os";
import { computeBars } from "./bars.ts";
import { measure } from "./measure.ts";
import { parseOptions } from "./options.ts";
import { prepare } from "./prepare.ts";
import { formatReport } from "./report.ts";

// process.exit runs the exit handlers, which kill the targets.
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => process.exit(1));
}

const options = parseOptions(process.argv.slice(2));
prepare(options.targets);
const results = await measure(options, (text) => process.stderr.write(`${text}\n`));
const bars = computeBars(results);

const machine = {
  node: process.version,
  platform: `${process.platform} ${process.arch}`,
  cpu: cpus()[0]?.model ?? "unknown",
  cores: availableParallelism(),
};
const { durationMs, rounds, jsonFile } = options;
process.stdout.write(
  `Node ${machine.node}, ${machine.platform}, ${machine.cores} cores (${machine.cpu}); ` +
    `${durationMs / 1000} s per scenario, median of ${rounds} round(s)\n\n` +
    `${formatReport(results, bars)}\n`,
);
if (jsonFile !== null) {
  const everything = { machine, durationMs, rounds, ...results, bars };
  writeFileSync(jsonFile, `${JSON.stringify(everything, null, 2)}\n`);
}

// A missed bar is a valid result. The run fails only if a target could not be measured.
process.exitCode = results.targets.some(({ failures }) => failures.length > 0) ? 1 : 0;
