// Runs the tests that `npm test` leaves out: `npm run test:all`. The parts share the cores, because each of them waits for much of its time.
// All parts run, even if one of them fails.

import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

interface Part {
  readonly name: string;
  readonly command: string;
}

/** Parts one after the other, beside the other rows. Nothing here builds: `dist/` must not change below tests that run. */
const BESIDE_EACH_OTHER: readonly (readonly Part[])[] = [
  [
    {
      name: "vitest",
      command: "vitest run --project process --project interop --project examples --project conformance --project hostile",
    },
  ],
  [{ name: "system", command: "node test/system/run.ts" }],
  [
    { name: "image", command: "node test/image/run.ts" },
    { name: "nodes", command: "node test/nodes.ts --brief" },
    { name: "clients", command: "npm run --silent clients:check && vitest run --config vitest.clients.config.ts" },
  ],
];
/** Its short timeouts would fail servers that start beside hundreds of processes. */
const LAST: Part = { name: "chaos", command: "vitest run --project chaos" };

const running = new Set<ChildProcess>();
// Each part leads a process group, which gets signals as a whole.
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    for (const { pid } of running) if (pid !== undefined) process.kill(-pid, signal);
    process.exit(1);
  });
}

const summary: string[] = [];
await Promise.all(
  BESIDE_EACH_OTHER.map(async (parts) => {
    for (const part of parts) await run(part);
  }),
);
await run(LAST);
console.log(`\n${summary.join("\n")}`);

/** Runs a part, and prints each line of its output behind its name. */
async function run({ name, command }: Part): Promise<void> {
  const startMs = performance.now();
  const child = spawn("sh", ["-c", command], { stdio: ["ignore", "pipe", "pipe"], detached: true });
  running.add(child);
  for (const output of [child.stdout, child.stderr]) {
    createInterface({ input: output }).on("line", (line) => console.log(`${name.padEnd(7)} | ${line}`));
  }
  const exitCode = await new Promise<number | null>((resolve) => child.once("close", resolve));
  running.delete(child);
  if (exitCode !== 0) process.exitCode = 1;
  summary.push(`${name.padEnd(7)} ${exitCode === 0 ? "passed" : "FAILED"} in ${((performance.now() - startMs) / 1000).toFixed(0)} s`);
}
