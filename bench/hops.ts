// Counts the files and functions of src/ that one request goes through, by V8's precise coverage after a warm-up.
// `node bench/hops.ts [--files] [PATH/main.ts]`; `--files` also prints the names of the files.

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { McpClient } from "../test/support/mcp-client.ts";
import { connectInspector } from "./inspector.ts";
import { findFreePort, ProgramProcess } from "./program.ts";

const ROOT = dirname(import.meta.dirname);
const SERVER = [process.execPath, join(ROOT, "test", "fixtures", "stdio-server.ts")];
const WARM_UP_CALLS = 30;
const POLL_MS = 10;

interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly { readonly ranges: readonly { readonly count: number }[] }[];
}

/** A sidecar with an inspector, and one MCP session. */
type InspectedSidecar = Awaited<ReturnType<typeof startInspected>>;

async function startInspected(main: string, flags: readonly string[]) {
  const directory = await mkdtemp(join(tmpdir(), "hops-"));
  const inspectorPort = await findFreePort();
  // With the second flag, the sidecar does not start Node again, which would end the inspector.
  const nodeFlags = [`--inspect=127.0.0.1:${inspectorPort}`, "--max-semi-space-size=8"];
  const program = {
    name: "the sidecar",
    token: undefined,
    environment: { FIXTURE_READ_ONLY: "wait_for_file" },
    healthPath: "/readyz",
    nodeArgs: (port: number) => [...nodeFlags, main, "--addr", `127.0.0.1:${port}`, ...flags, "--", ...SERVER],
  };
  const sidecar = await ProgramProcess.start(program, join(directory, "log"));
  const { command, close } = await connectInspector(inspectorPort);
  const client = await new McpClient(sidecar.url).open();
  await command("Profiler.enable");
  await command("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  return {
    directory,
    /** Resolves when the output of the sidecar has this part. */
    async logged(part: string): Promise<void> {
      while (!(await readFile(join(directory, "log"), "utf8")).includes(part)) await sleep(POLL_MS);
    },
    async serverPid(): Promise<number> {
      return ((await (await fetch(`${sidecar.origin}/readyz`)).json()) as { readonly pid: number }).pid;
    },
    async callTool(name: string, args: object): Promise<void> {
      const { status, result } = await client.callTool(name, args);
      if (result === undefined) throw new Error(`${name} was answered with ${status}`);
    },
    /** The functions that were called since the last time, by file. */
    async takeCalled(): Promise<ReadonlyMap<string, number>> {
      const { result } = (await command("Profiler.takePreciseCoverage")) as { readonly result: readonly ScriptCoverage[] };
      return calledFunctions(result, dirname(main));
    },
    async stop(): Promise<void> {
      // Otherwise, Node waits for it at its end.
      close();
      await sidecar.end();
      await rm(directory, { recursive: true });
    },
  };
}

function calledFunctions(scripts: readonly ScriptCoverage[], folder: string): ReadonlyMap<string, number> {
  const called = new Map<string, number>();
  for (const { url, functions } of scripts) {
    const file = url.startsWith("file:") ? relative(folder, fileURLToPath(url)) : "..";
    const count = functions.filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0).length;
    if (!file.startsWith("..") && count > 0) called.set(file, count);
  }
  return called;
}

type Run = (sidecar: InspectedSidecar) => Promise<void>;

const callTool =
  (name: string, args: object): Run =>
  (sidecar) =>
    sidecar.callTool(name, args);

/** A call that only reads is in flight when the server is killed. The next server answers it. */
const replay: Run = async (sidecar) => {
  const path = join(sidecar.directory, `answer-${performance.now()}`);
  const pid = await sidecar.serverPid();
  await sidecar.takeCalled();
  const answered = sidecar.callTool("wait_for_file", { path });
  await sidecar.logged(`waiting for ${path}`);
  process.kill(pid, "SIGKILL");
  await writeFile(path, "");
  await answered;
};

const SCENARIOS: readonly (readonly [name: string, flags: readonly string[], warmUps: number, run: Run])[] = [
  ["tools/call", [], WARM_UP_CALLS, callTool("echo", { text: "a" })],
  ["tools/call, result cut", ["--max-result-bytes", "16384"], WARM_UP_CALLS, callTool("big", { length: 100_000 })],
  ["restart with replay", ["--retry", "read-only", "--restart-backoff-ms", "1"], 2, replay],
];

const args = process.argv.slice(2);
const main = resolve(args.find((arg) => arg !== "--files") ?? join(ROOT, "src", "main.ts"));
for (const [name, flags, warmUps, run] of SCENARIOS) {
  const sidecar = await startInspected(main, flags);
  try {
    for (let count = 0; count < warmUps; count++) await run(sidecar);
    await sidecar.takeCalled();
    await run(sidecar);
    const called = await sidecar.takeCalled();
    const functions = called.values().reduce((sum, count) => sum + count, 0);
    process.stdout.write(`${name}: ${called.size} files, ${functions} functions\n`);
    if (args.includes("--files")) for (const file of [...called.keys()].toSorted()) process.stdout.write(`  ${file}\n`);
  } finally {
    await sidecar.stop();
  }
}
