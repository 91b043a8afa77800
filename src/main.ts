#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { loadConfig, readCommandLine } from "./config/load.ts";
import { ExitCode } from "./exit-code.ts";

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { version: string };

/** As `engines` of package.json has it. */
const OLDEST_NODE = 26;

process.exitCode = await main(process.argv.slice(2));

async function main(argv: readonly string[]): Promise<number> {
  if (Number.parseInt(process.versions.node, 10) < OLDEST_NODE) {
    process.stderr.write(`claw-mcp-stdio needs Node ${OLDEST_NODE} or newer; this is ${process.version}\n`);
    return 1;
  }
  const [first] = argv;
  const isHealthcheck = first === "healthcheck" || first === "-healthcheck" || first === "--healthcheck";
  const commandLine = readCommandLine(isHealthcheck ? argv.slice(1) : argv);
  const { flags } = commandLine;
  if (flags.has("help") || flags.has("h")) {
    const { helpText } = await import("./config/describe.ts");
    process.stdout.write(helpText());
    return 0;
  }
  if (flags.has("version")) {
    process.stdout.write(`${version}\n`);
    return 0;
  }

  const { config, problems, unknownVariables } = loadConfig(commandLine, process.env, !isHealthcheck);
  if (config === undefined) {
    process.stderr.write(`claw-mcp-stdio: invalid configuration:\n${problems.map((problem) => `  - ${problem}\n`).join("")}`);
    // A container's HEALTHCHECK knows 0 and 1 only.
    return isHealthcheck ? ExitCode.failed : ExitCode.wrongConfiguration;
  }
  if (flags.has("check-config")) {
    const { effectiveConfigText } = await import("./config/describe.ts");
    process.stdout.write(`${effectiveConfigText(config)}\n`);
    return 0;
  }
  if (isHealthcheck) {
    const { healthcheck } = await import("./commands/healthcheck.ts");
    const { exitCode, text } = await healthcheck(config);
    process.stdout.write(`${text}\n`);
    return exitCode;
  }
  const { serve } = await import("./commands/serve.ts");
  await serve({ config, environment: process.env, unknownVariables, version, stdout: process.stdout, signals: process, exit });
  return 0;
}

function exit(exitCode: number, isLogStuck: boolean): void {
  // process.exit() waits for a write that is under way; nobody reads it, so only this ends.
  if (isLogStuck) process.kill(process.pid, "SIGKILL");
  process.exit(exitCode);
}
