// `node build/beside.ts check test:stages` runs two npm scripts at the same time, each to its end. The output of the first is shown as one block when it
// ends, and that of the second as it comes. The exit code is the worse one.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";

const [quiet = "", live = ""] = process.argv.slice(2);
const running = new Set<ChildProcess>();
// npm does not pass signals on, so each script leads a process group, which gets them as a whole. This process ends after the scripts.
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => {
    for (const { pid } of running) if (pid !== undefined) process.kill(-pid, signal);
  });
}

const [first, second] = await Promise.all([run(quiet, "pipe"), run(live, "inherit")]);
console.log(`${first.summary}\n${second.summary}`);
process.exitCode = Math.max(first.code, second.code);

async function run(script: string, stdio: "pipe" | "inherit"): Promise<{ code: number; summary: string }> {
  const startMs = performance.now();
  // npm passes its level of logging on to each npm that a test runs.
  const level = stdio === "pipe" ? ["--silent"] : [];
  const child = spawn("npm", ["run", ...level, script], { stdio: ["ignore", stdio, stdio], detached: true });
  running.add(child);
  const output: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk: Buffer) => output.push(chunk));
  const [exitCode, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
  running.delete(child);
  const end = exitCode === 0 ? "passed" : `FAILED (${signal ?? `exit code ${exitCode}`})`;
  const summary = `npm run ${script}: ${end} after ${Math.round((performance.now() - startMs) / 1000)} s`;
  if (stdio === "pipe") console.log(`\n── ${summary}\n${Buffer.concat(output).toString().trimEnd()}\n──\n`);
  return { code: exitCode ?? 1, summary };
}
