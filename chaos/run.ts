// Runs wrappers of an MCP server with faults under load, and prints the outcomes of all requests; see docs/CHAOS.md.

import { writeFileSync } from "node:fs";
import { availableParallelism, cpus } from "node:os";
import { installPeers } from "../bench/prepare.ts";
import { runChaos } from "./chaos-run.ts";
import { writeSection } from "./document.ts";
import { parseOptions } from "./options.ts";
import { formatExamples, formatReport } from "./report.ts";
import { failures, type RunResult } from "./results.ts";

// Exit handlers kill all processes that the run has started.
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => process.exit(1));
}

const { adapters, seed, durationMs, kinds, faults, serverEra, replicas, logFile, jsonFile, markdownFile } = parseOptions(
  process.argv.slice(2),
);
if (adapters.some(({ isSubject }) => !isSubject)) installPeers();
const results: RunResult[] = [];
for (const adapter of adapters) {
  process.stderr.write(`${adapter.name}: ${durationMs / 1000} s, seed ${seed} ...\n`);
  const result = await runChaos({ adapter, seed, durationMs, kinds, replicas, logFile });
  process.stderr.write(formatExamples(result));
  results.push(result);
}

const names = adapters.map(({ name }) => name).join(",");
const command = `npm run chaos -- --against ${names} --seconds ${durationMs / 1000} --seed ${seed} --faults ${faults}${serverEra === "legacy" ? "" : ` --server-era ${serverEra}`}${replicas === 1 ? "" : ` --replicas ${replicas}`}`;
const machine = `Node ${process.version}, ${process.platform} ${process.arch}, ${availableParallelism()} cores (${cpus()[0]?.model ?? "unknown"})`;
const report = `\`${command}\`, ${machine}:\n\n${formatReport(results)}`;
process.stdout.write(`${report}\n`);
if (jsonFile !== undefined) writeFileSync(jsonFile, `${JSON.stringify({ command, machine, results }, null, 2)}\n`);
if (markdownFile !== undefined) writeSection(markdownFile, replicas === 1 ? faults : "replicas", report);

// An offence of a peer is a result; an offence of the subject is a failure.
const failed = results.filter(({ name }) => adapters.some((adapter) => adapter.isSubject && adapter.name === name)).flatMap(failures);
for (const failure of failed) process.stderr.write(`FAILED: ${failure}\n`);
process.exit(failed.length === 0 ? 0 : 1);
