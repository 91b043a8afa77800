// Runs the real adb, and writes a file about the run into the folder RECORDING_FOLDER.

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import { readState, type Run } from "./recording.ts";

const FLOOD_BYTES = 1024 * 1024;
/** After this time, a run is taken for one that hangs, until it ends. */
const HANG_MS = 1000;
const args = process.argv.slice(2);
const path = `${process.env["RECORDING_FOLDER"]}/${randomUUID()}.json`;
const statePath = process.env["RECORDED_STATE"] ?? "";
const state = readState(statePath);
const child = spawn("adb", args, { stdio: ["ignore", "pipe", "pipe"] });
const output = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) };
for (const name of ["stdout", "stderr"] as const) {
  child[name].on("data", (chunk: Buffer) => {
    output[name] = Buffer.concat([output[name], chunk]);
    process[name].write(chunk);
    if (output[name].length > FLOOD_BYTES) recordEnd("floods");
  });
  process[name].on("error", () => undefined);
}
// The bridge ends this program with SIGKILL.
const timer = setTimeout(() => recordEnd("hangs"), HANG_MS);
child.once("close", (exitCode) => {
  clearTimeout(timer);
  rmSync(path, { force: true });
  const after = readState(statePath);
  const isStart = args[0] === "shell" && args[1]?.startsWith("am start") === true;
  // If the test has changed the device meanwhile, it is not known which state was seen.
  if (isStart || JSON.stringify(after) === JSON.stringify(state)) {
    const isBinary = output.stdout.includes(0);
    const stdout = output.stdout.toString(isBinary ? "base64" : "utf8");
    const run = { stdout, ...(isBinary ? { isBinary } : {}), stderr: output.stderr.toString(), exitCode: exitCode ?? 1 };
    record(isStart ? { ...run, after } : run);
  }
  process.exitCode = exitCode ?? 1;
});

function recordEnd(end: "hangs" | "floods"): void {
  record({ stdout: "", stderr: "", exitCode: 1, end });
}

function record(run: Omit<Run, "state" | "args">): void {
  writeFileSync(path, JSON.stringify({ state, args, ...run }));
}
