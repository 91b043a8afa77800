import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { WAIT_TIMEOUT_MS } from "./changes.ts";
import { FIRST_PID, inProcessServer } from "./in-process-server.ts";
import { RunningSidecar, type StartOptions as RunningOptions } from "./running-sidecar.ts";

export type { LogLine } from "./running-sidecar.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
export const MAIN = `${ROOT}dist/main.js`;
/** A module that is loaded first. */
const POISON = new URL("poison.js", import.meta.url).href;
export const FIXTURE = `${ROOT}test/fixtures/stdio-server.ts`;
export const EXAMPLE = `${ROOT}examples/echo-server/server.js`;

const REAP_TIMEOUT_MS = 60_000;
/** A response must not be JSON or a stream depending on the machine's speed. Tests of the form override this. */
export const NO_SLOW_STREAM = { CLAW_MCP_STDIO_STREAM_AFTER_MS: "60000" };

export interface StartOptions extends RunningOptions {
  /** Modules that the sidecar loads first. */
  readonly imports?: readonly string[];
}

/** Vitest does not dispose of the resources of a test that timed out, and ends its workers by a signal. */
const running = new Set<ChildProcess>();
function killRunning(): void {
  for (const child of running) child.kill("SIGKILL");
}
process.once("exit", killRunning);
process.once("SIGTERM", () => {
  killRunning();
  process.kill(process.pid, "SIGTERM");
});

/** A real sidecar process with a real MCP server behind it. Use with `await using`: it is stopped, and must leave no process. */
export class Sidecar extends RunningSidecar {
  readonly process: ChildProcess;
  readonly exited: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  stderr = "";
  readonly ended: Promise<number | null>;

  constructor(child: ChildProcess) {
    super();
    this.process = child;
    running.add(child);
    child.once("exit", () => running.delete(child));
    this.ended = new Promise((resolve) => child.once("close", (code) => resolve(code)));
    this.exited = new Promise((resolve) => child.once("exit", (code, signal) => resolve({ code, signal })));
    if (child.stdout === null || child.stderr === null) throw new Error("pipes expected");
    createInterface({ input: child.stdout }).on("line", (line) => {
      if (!line.endsWith("}")) return this.#onPartialLine(line);
      this.addLogLine(line);
    });
    child.stderr.on("data", (chunk: Buffer) => (this.stderr += chunk.toString()));
  }

  static async start({
    mode = "normal",
    fixtureArgs = [],
    command,
    flags = [],
    env = {},
    imports = [],
    address = "127.0.0.1:0",
    untilReady = true,
  }: StartOptions = {}): Promise<Sidecar> {
    // As in the image. Without the first flag, each sidecar would start Node twice.
    const nodeFlags = ["--max-semi-space-size=8", ...[POISON, ...imports].flatMap((each) => ["--import", each])];
    const server = command ?? [process.execPath, FIXTURE, mode, ...fixtureArgs];
    const sidecar = new Sidecar(
      spawn(process.execPath, [...nodeFlags, MAIN, "--addr", address, ...flags, "--", ...server], {
        env: { ...NO_SLOW_STREAM, ...process.env, ...env },
        stdio: ["ignore", "pipe", "pipe"],
      }),
    );
    await sidecar.waitForStart(untilReady);
    return sidecar;
  }

  override transcript(): string {
    return `${super.transcript()}\n${this.stderr}`;
  }

  override kill(signal: NodeJS.Signals = "SIGTERM"): void {
    this.process.kill(signal);
  }

  /** Only a killed process may leave a part of a line. */
  #onPartialLine(line: string): void {
    void this.exited.then(({ signal }) => {
      if (signal !== "SIGKILL") throw new Error(`not a log line: ${line}`);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      const killer = setTimeout(() => this.process.kill("SIGKILL"), WAIT_TIMEOUT_MS);
      this.kill();
      // Its log may have no reader.
      await this.exited;
      clearTimeout(killer);
    }
    await expectNoProcess(this.serverPids);
  }
}

/** Waits until no process of these groups is left. A killed process remains until PID 1 has reaped it, for which there is no event. */
export async function expectNoProcess(leaderPids: readonly number[]): Promise<void> {
  const deadlineMs = performance.now() + REAP_TIMEOUT_MS;
  while (leaderPids.some(isGroupAlive) && performance.now() < deadlineMs) await delay(10);
  const leaked = leaderPids.filter(isGroupAlive);
  for (const pid of leaked) signalGroup(pid);
  if (leaked.length > 0) throw new Error(`leaked processes: ${leaked.join(", ")}`);
}

function signalGroup(leaderPid: number): void {
  const server = inProcessServer(leaderPid);
  if (server === undefined) process.kill(-leaderPid, "SIGKILL");
  else server.signal("SIGKILL");
}

/** Returns true if the process runs. A process that waits to be reaped does not. */
export function isAlive(pid: number): boolean {
  return inProcessServer(pid) !== undefined || processes().some((each) => each.pid === pid);
}

/** Returns true if a process of the group runs. */
export function isGroupAlive(leaderPid: number): boolean {
  if (leaderPid >= FIRST_PID) return inProcessServer(leaderPid) !== undefined;
  return processes().some((each) => each.group === leaderPid);
}

/** Returns the running processes of a group. */
export function groupMembers(leaderPid: number): number[] {
  return processes()
    .filter((each) => each.group === leaderPid)
    .map(({ pid }) => pid);
}

/** Returns all running processes, from proc(5): pid (name) state ppid pgrp … */
function processes(): { readonly pid: number; readonly group: number }[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      const stat = statText(name);
      if (stat === undefined) return [];
      const [state = "", , group] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      return state === "Z" || state === "X" ? [] : [{ pid: Number(name), group: Number(group) }];
    });
}

/** @returns undefined if the process has ended since it was listed. */
function statText(pid: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ESRCH") return undefined;
    // Any other error, such as too many open files, does not mean that the process has ended.
    throw error;
  }
}

/** Runs the command line to its end, for commands that do not serve. */
export async function runMain(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  cwd?: string,
): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: WAIT_TIMEOUT_MS,
    ...(cwd === undefined ? {} : { cwd }),
  });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  const [code] = (await once(child, "close")) as [number | null];
  return { code, stdout, stderr };
}
