// Runs the load in a separate process, so that the work of this one does not add to the latencies.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { LoadConfig } from "./load-contract.ts";

const LOAD = join(import.meta.dirname, "load.ts");
const GRACE_MS = 30_000;

export async function runLoad<Result>(config: LoadConfig, isResult: (value: unknown) => value is Result): Promise<Result> {
  const loadMs = durationMsOf(config);
  const load = spawn(process.execPath, [LOAD, JSON.stringify(config)], {
    stdio: ["ignore", "pipe", "pipe"],
    timeout: loadMs + GRACE_MS,
    killSignal: "SIGKILL",
  });
  const [output, errorOutput] = await Promise.all([text(load.stdout), text(load.stderr), once(load, "close")]);
  if (load.signalCode !== null) throw new Error("the load did not end in time");
  if (load.exitCode !== 0) throw new Error(errorLine(errorOutput));
  const result: unknown = JSON.parse(output);
  if (!isResult(result)) throw new Error("the output is not a load result");
  return result;
}

function durationMsOf(config: LoadConfig): number {
  if (config.kind === "turns") return 2 * (config.warmupMs + config.turns * config.durationMs);
  return "durationMs" in config ? config.warmupMs + config.durationMs : 0;
}

/** Returns the line with the message from the output of an uncaught error. */
function errorLine(errorOutput: string): string {
  return /^\w*Error.*$/m.exec(errorOutput)?.[0] ?? "the load failed";
}
