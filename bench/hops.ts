// Counts the files and functions of src/ that one request goes through, by V8's precise coverage after a warm-up.
// `node bench/hops.ts [--files] [PATH/main.ts]`; `--files` also prints the names of the files.

import { type ChildProcess, spawn } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { findFreePort } from "./program.ts";

const ROOT = dirname(import.meta.dirname);
const SERVER = [process.execPath, join(ROOT, "test", "fixtures", "stdio-server.ts")];
const WARM_UP_CALLS = 30;

interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly { readonly ranges: readonly { readonly count: number }[] }[];
}

/** A sidecar with an inspector, and one MCP session. */
class InspectedSidecar {
  readonly #main: string;
  readonly #child: ChildProcess;
  /** Emits each line of stdout and stderr. */
  readonly #output = new EventEmitter();
  readonly #url: string;
  #inspector: WebSocket | undefined;
  #lastId = 0;
  #sessionId = "";

  private constructor(main: string, port: number, flags: readonly string[]) {
    this.#main = main;
    this.#url = `http://127.0.0.1:${port}`;
    // With this flag, the sidecar does not start Node again, which would end the inspector.
    const args = ["--inspect=127.0.0.1:0", "--max-semi-space-size=8", main, "--addr", `127.0.0.1:${port}`, ...flags, "--", ...SERVER];
    const env = { PATH: process.env["PATH"], HOME: process.env["HOME"], FIXTURE_READ_ONLY: "wait_for_file" };
    this.#child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "pipe"] });
    const { stdout, stderr } = this.#child;
    if (stdout === null || stderr === null) throw new Error("the sidecar has no output");
    for (const output of [stdout, stderr]) createInterface(output).on("line", (line) => this.#output.emit("line", line));
  }

  static async start(main: string, flags: readonly string[]): Promise<InspectedSidecar> {
    const sidecar = new InspectedSidecar(main, await findFreePort(), flags);
    const listening = sidecar.lineWith("Debugger listening on ");
    const ready = sidecar.lineWith("mcp server ready");
    const inspector = new WebSocket((await listening).replace(/^.* on /, ""));
    await once(inspector, "open");
    sidecar.#inspector = inspector;
    await ready;
    const clientInfo = { name: "hops", version: "1" };
    await sidecar.request("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo });
    await sidecar.#post({ jsonrpc: "2.0", method: "notifications/initialized" });
    await sidecar.#command("Profiler.enable");
    await sidecar.#command("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
    return sidecar;
  }

  lineWith(part: string): Promise<string> {
    const { promise, resolve: found } = Promise.withResolvers<string>();
    const look = (line: string): void => {
      if (!line.includes(part)) return;
      this.#output.off("line", look);
      found(line);
    };
    this.#output.on("line", look);
    return promise;
  }

  async serverPid(): Promise<number> {
    const { pid } = (await (await fetch(`${this.#url}/readyz`)).json()) as { readonly pid: number };
    return pid;
  }

  async request(method: string, params: object): Promise<void> {
    const text = await this.#post({ jsonrpc: "2.0", id: ++this.#lastId, method, params });
    if (!text.includes('"result":')) throw new Error(`${method} was answered with ${text}`);
  }

  /** The functions that were called since the last time, by file. */
  async takeCalled(): Promise<ReadonlyMap<string, number>> {
    const { result } = (await this.#command("Profiler.takePreciseCoverage")) as { readonly result: readonly ScriptCoverage[] };
    const called = new Map<string, number>();
    for (const { url, functions } of result) {
      const file = url.startsWith("file:") ? relative(dirname(this.#main), fileURLToPath(url)) : "..";
      const count = functions.filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0).length;
      if (!file.startsWith("..") && count > 0) called.set(file, count);
    }
    return called;
  }

  async stop(): Promise<void> {
    this.#inspector?.close();
    const exited = once(this.#child, "exit");
    this.#child.kill("SIGTERM");
    await exited;
  }

  async #post(message: object): Promise<string> {
    const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
    const response = await fetch(`${this.#url}/mcp`, {
      method: "POST",
      headers: this.#sessionId === "" ? headers : { ...headers, "Mcp-Session-Id": this.#sessionId },
      body: JSON.stringify(message),
    });
    this.#sessionId = response.headers.get("mcp-session-id") ?? this.#sessionId;
    return response.text();
  }

  async #command(method: string, params: object = {}): Promise<unknown> {
    const inspector = this.#inspector;
    if (inspector === undefined) throw new Error("not connected");
    // Without other domains, each message is an answer.
    const answered = once(inspector, "message") as Promise<[{ readonly data: string }]>;
    inspector.send(JSON.stringify({ id: ++this.#lastId, method, params }));
    const [{ data }] = await answered;
    return (JSON.parse(data) as { readonly result: unknown }).result;
  }
}

type Run = (sidecar: InspectedSidecar) => Promise<void>;

const callTool =
  (name: string, args: object): Run =>
  (sidecar) =>
    sidecar.request("tools/call", { name, arguments: args });

/** A call that only reads is in flight when the server is killed. The next server answers it. */
const replay: Run = async (sidecar) => {
  const directory = await mkdtemp(join(tmpdir(), "hops-"));
  const path = join(directory, "answer");
  const pid = await sidecar.serverPid();
  await sidecar.takeCalled();
  const waiting = sidecar.lineWith(`waiting for ${path}`);
  const answered = callTool("wait_for_file", { path })(sidecar);
  await waiting;
  process.kill(pid, "SIGKILL");
  await writeFile(path, "");
  await answered;
  await rm(directory, { recursive: true });
};

const SCENARIOS: readonly (readonly [name: string, flags: readonly string[], warmUps: number, run: Run])[] = [
  ["tools/call", [], WARM_UP_CALLS, callTool("echo", { text: "a" })],
  ["tools/call, result cut", ["--max-result-bytes", "16384"], WARM_UP_CALLS, callTool("big", { length: 100_000 })],
  ["restart with replay", ["--retry", "read-only", "--restart-backoff-ms", "1"], 2, replay],
];

const args = process.argv.slice(2);
const main = resolve(args.find((arg) => arg !== "--files") ?? join(ROOT, "src", "main.ts"));
for (const [name, flags, warmUps, run] of SCENARIOS) {
  const sidecar = await InspectedSidecar.start(main, flags);
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
