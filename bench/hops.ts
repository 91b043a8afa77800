// Counts the files and functions of src/ that one request goes through, by V8's precise coverage after a warm-up.
// `node bench/hops.ts [--files] [PATH/main.ts]`; `--files` also prints the names of the files.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { McpClient } from "../test/support/mcp-client.ts";
import { FIXTURE, Sidecar } from "../test/support/sidecar.ts";
import { TempDir } from "../test/support/temp-dir.ts";
import { connectInspector, type Inspector } from "./inspector.ts";

export interface Hops {
  readonly request: string;
  /** Paths in `src`, in order. */
  readonly files: readonly string[];
  readonly functions: number;
}

interface Run {
  readonly sidecar: Sidecar;
  readonly client: McpClient;
  readonly inspector: Inspector;
}

interface Scenario {
  readonly request: string;
  readonly flags: readonly string[];
  readonly warmUps: number;
  readonly times: number;
  readonly send: (run: Run) => Promise<void>;
}

interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly { readonly ranges: readonly { readonly count: number }[] }[];
}

const MAIN = join(dirname(import.meta.dirname), "src", "main.ts");

/** Longer timers never fire in the sidecar. No request here needs one, and on a busy machine more of them would fire during a request. */
const LONGEST_TIMER_MS = 100;
const WITHOUT_LONG_TIMERS = `for (const name of ["setTimeout", "setInterval"]) {
  const start = globalThis[name];
  globalThis[name] = (callback, ms, ...args) => start(callback, ms > ${LONGEST_TIMER_MS} ? 2 ** 31 - 1 : ms, ...args);
}`;

/** The inspector interrupts the sidecar anywhere: after the response has been sent, but before the rest of its work for the request. */
const SOME_TURNS = "(async () => { for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate); })()";

const SCENARIOS: readonly Scenario[] = [
  { request: "tools/call", flags: [], warmUps: 30, times: 5, send: ({ client }) => callTool(client, "echo", { text: "a" }) },
  {
    request: "tools/call, result cut",
    flags: ["--max-result-bytes", "16384"],
    warmUps: 30,
    times: 5,
    send: ({ client }) => callTool(client, "big", { length: 100_000 }),
  },
  {
    request: "restart with replay",
    flags: ["--retry", "read-only", "--restart-backoff-ms", "1", "--crash-loop-exits", "100"],
    warmUps: 2,
    times: 3,
    send: replay,
  },
];

/**
 * Measures each request several times in two sidecars, and returns the lowest counts but one. On a busy machine the sidecar does more: after
 * a pause of 50 ms it divides its work. Rarely V8 reports too few functions.
 *
 * @param main runs from sources, in which files and functions can be told apart.
 */
export async function countHops(main = MAIN): Promise<readonly Hops[]> {
  const hops: Hops[] = [];
  for (const scenario of SCENARIOS) {
    const both = await Promise.all([countHopsOf(scenario, main), countHopsOf(scenario, main)]);
    const [, lowestButOne] = both.flat().toSorted((one, other) => one.functions - other.functions);
    if (lowestButOne !== undefined) hops.push(lowestButOne);
  }
  return hops;
}

async function countHopsOf({ request, flags, warmUps, times, send }: Scenario, main: string): Promise<Hops[]> {
  // With the second flag, the sidecar does not start Node again, which would end the inspector.
  const nodeFlags = ["--inspect=127.0.0.1:0", "--max-semi-space-size=8"];
  const preload = `data:text/javascript,${encodeURIComponent(WITHOUT_LONG_TIMERS)}`;
  const server = [process.execPath, FIXTURE];
  const child = spawn(process.execPath, [...nodeFlags, "--import", preload, main, "--addr", "127.0.0.1:0", ...flags, "--", ...server], {
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], FIXTURE_READ_ONLY: "wait_for_file" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  // Debugger listening on ws://127.0.0.1:40721/…
  const firstLine = once(createInterface({ input: child.stderr }), "line") as Promise<[string]>;
  await using sidecar = new Sidecar(child);
  const { address } = await sidecar.waitForLog("listening");
  await sidecar.waitForLog("mcp server ready");
  const inspector = await connectInspector(Number(/:(\d+)\//.exec((await firstLine)[0])?.[1]));
  try {
    const client = await new McpClient(`http://${String(address)}/mcp`).open();
    const run = { sidecar, client, inspector };
    await inspector.command("Profiler.enable");
    await inspector.command("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
    const hops: Hops[] = [];
    for (let count = 1; count <= warmUps + times; count++) {
      await send(run);
      const called = await takeCalled(inspector, main);
      const functions = called.values().reduce((sum, each) => sum + each, 0);
      if (count > warmUps) hops.push({ request, files: [...called.keys()].toSorted(), functions });
    }
    return hops;
  } finally {
    // Otherwise, Node waits for it at its end.
    inspector.close();
  }
}

/** Returns the functions that were called since the last time, by file. */
async function takeCalled({ command }: Inspector, main: string): Promise<ReadonlyMap<string, number>> {
  await command("Runtime.evaluate", { expression: SOME_TURNS, awaitPromise: true });
  const { result } = (await command("Profiler.takePreciseCoverage")) as { readonly result: readonly ScriptCoverage[] };
  const called = new Map<string, number>();
  for (const { url, functions } of result) {
    const file = url.startsWith("file:") ? relative(dirname(main), fileURLToPath(url)) : "..";
    const count = functions.filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0).length;
    if (!file.startsWith("..") && count > 0) called.set(file, count);
  }
  return called;
}

async function callTool(client: McpClient, name: string, args: object): Promise<void> {
  const { status, result } = await client.callTool(name, args);
  if (result === undefined) throw new Error(`${name} was answered with ${status}`);
}

/** A call that only reads is in flight when the server is killed. The next server answers it. */
async function replay({ sidecar, client }: Run): Promise<void> {
  await using directory = await TempDir.create();
  const path = directory.file("answer");
  const answered = callTool(client, "wait_for_file", { path });
  for (const servers of [1, 2]) {
    const isWaiting = (): true | undefined =>
      sidecar.logLines.filter((line) => JSON.stringify(line).includes(`waiting for ${path}`)).length === servers ? true : undefined;
    await sidecar.waitFor(isWaiting, `a call in server ${servers}`);
    if (servers === 1) process.kill(sidecar.childPid, "SIGKILL");
  }
  await writeFile(path, "");
  await answered;
}

if (import.meta.main) {
  const args = process.argv.slice(2);
  const path = args.find((arg) => arg !== "--files");
  for (const { request, files, functions } of await countHops(path === undefined ? MAIN : resolve(path))) {
    process.stdout.write(`${request}: ${files.length} files, ${functions} functions\n`);
    if (args.includes("--files")) for (const file of files) process.stdout.write(`  ${file}\n`);
  }
}
