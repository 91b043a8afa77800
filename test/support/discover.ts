import { type ChildProcess, spawn, type SpawnOptions } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { setTimeout as delay } from "node:timers/promises";
import type { Snapshot } from "./discovery-client.ts";
import { MAIN, runMain } from "./sidecar.ts";
import type { TempDir } from "./temp-dir.ts";

const LISTING_SERVER = fileURLToPath(new URL("../fixtures/listing-server.ts", import.meta.url));

export function listingServer(mode: string, ...args: readonly string[]): readonly string[] {
  return [process.execPath, LISTING_SERVER, mode, ...args];
}

export function runDiscover(
  args: readonly string[],
  { env, cwd }: { readonly env?: Readonly<Record<string, string>>; readonly cwd?: string } = {},
): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> {
  return runMain(["discover", ...args], env, cwd);
}

/** Runs `discover`, and returns the snapshot that it prints. @throws if it fails. */
export async function discoverSnapshot(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Snapshot> {
  const { code, stdout, stderr } = await runDiscover(args, { env });
  if (code !== 0) throw new Error(`discover: ${code} ${stderr}`);
  return JSON.parse(stdout) as Snapshot;
}

export function readSnapshot(path: string): Snapshot {
  return JSON.parse(readFileSync(path, "utf8")) as Snapshot;
}

export function withoutTime({ "x-claw-discovery": discovery, ...rest }: Snapshot): object {
  const { discovered_at: _, ...untimed } = discovery;
  return { ...rest, "x-claw-discovery": untimed };
}

/** Sets the tools that the fixture lists. @returns its environment. */
export async function listTools(directory: TempDir, ...pages: readonly (readonly object[])[]): Promise<Readonly<Record<string, string>>> {
  const path = directory.file("tools.json");
  await writeFile(path, JSON.stringify({ pages }));
  return { FIXTURE_TOOLS: path };
}

interface RunningOptions {
  readonly stdin?: "ignore" | "pipe";
  readonly env?: Readonly<Record<string, string>>;
}

/** A running `discover`. Use with `await using`. */
export class RunningDiscover implements AsyncDisposable {
  readonly process: ChildProcess;
  readonly exited: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  stdout = "";
  stderr = "";

  /** @param stdin `pipe` if the test writes to it. */
  constructor(args: readonly string[], { stdin = "ignore", env = {} }: RunningOptions = {}) {
    const options = { stdio: [stdin, "pipe", "pipe"], env: { ...process.env, ...env } } satisfies SpawnOptions;
    this.process = spawn(process.execPath, [MAIN, "discover", ...args], options);
    // It may stop reading.
    this.process.stdin?.on("error", () => undefined);
    this.process.stdout?.on("data", (chunk: Buffer) => (this.stdout += chunk.toString()));
    this.process.stderr?.on("data", (chunk: Buffer) => (this.stderr += chunk.toString()));
    this.exited = new Promise((resolve) => this.process.once("close", (code, signal) => resolve({ code, signal })));
  }

  async serverPid(path: string): Promise<number> {
    for (;;) {
      const text = existsSync(path) ? readFileSync(path, "utf8") : "";
      if (text !== "") return Number(text);
      await delay(5);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.process.exitCode === null && this.process.signalCode === null) this.process.kill("SIGKILL");
    await this.exited;
  }
}
