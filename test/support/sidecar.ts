import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { type ClientOptions, McpClient } from "./mcp-client.ts";
import { ModernClient, type ModernClientOptions } from "./modern-client.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
export const MAIN = `${ROOT}dist/main.js`;
/** A module that is loaded first. */
const POISON = new URL("poison.js", import.meta.url).href;
export const FIXTURE = `${ROOT}test/fixtures/stdio-server.ts`;
export const EXAMPLE = `${ROOT}examples/echo-server/server.js`;

/** Only a hang reaches it. */
const WAIT_TIMEOUT_MS = 120_000;
const REAP_TIMEOUT_MS = 60_000;
/** A response must not be JSON or a stream depending on the machine's speed. Tests of the form override this. */
const NO_SLOW_STREAM = { CLAW_MCP_STDIO_STREAM_AFTER_MS: "60000" };

export type LogLine = Readonly<Record<string, unknown>> & { readonly msg: string };

export interface StartOptions {
  /** The fixture's mode and arguments; ignored if a command is given. */
  readonly mode?: string;
  readonly fixtureArgs?: readonly string[];
  readonly command?: readonly string[];
  readonly flags?: readonly string[];
  /** `127.0.0.1:0`, a free port, by default. */
  readonly address?: string;
  /** Added to the environment of the test. */
  readonly env?: Readonly<Record<string, string>>;
  /** Modules that the sidecar loads first. */
  readonly imports?: readonly string[];
  /** false: return as soon as it listens. */
  readonly untilReady?: boolean;
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
export class Sidecar implements AsyncDisposable {
  readonly process: ChildProcess;
  readonly exited: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  readonly logLines: LogLine[] = [];
  stderr = "";
  /** Resolves with the exit code when it has exited and its whole output has been read. */
  readonly #closed: Promise<number | null>;
  #address = "";
  readonly #onLog = new Set<() => void>();

  constructor(child: ChildProcess) {
    this.process = child;
    running.add(child);
    child.once("exit", () => running.delete(child));
    this.#closed = new Promise((resolve) => child.once("close", (code) => resolve(code)));
    this.exited = new Promise((resolve) => child.once("exit", (code, signal) => resolve({ code, signal })));
    if (child.stdout === null || child.stderr === null) throw new Error("pipes expected");
    createInterface({ input: child.stdout }).on("line", (line) => {
      if (!line.endsWith("}")) return this.#onPartialLine(line);
      this.logLines.push(JSON.parse(line) as LogLine);
      for (const notify of this.#onLog) notify();
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
    const sidecar = new Sidecar(
      spawn(
        process.execPath,
        [
          // As in the image. Without it, each sidecar would start Node twice.
          "--max-semi-space-size=8",
          ...[POISON, ...imports].flatMap((each) => ["--import", each]),
          MAIN,
          "--addr",
          address,
          ...flags,
          "--",
          ...(command ?? [process.execPath, FIXTURE, mode, ...fixtureArgs]),
        ],
        {
          env: { ...NO_SLOW_STREAM, ...process.env, ...env },
          stdio: ["ignore", "pipe", "pipe"],
        },
      ),
    );
    try {
      const listening = await sidecar.waitForLog("listening");
      sidecar.#address = String(listening["address"]);
      if (untilReady) await sidecar.waitForLog("mcp server ready");
    } catch (error) {
      await sidecar[Symbol.asyncDispose]();
      throw error;
    }
    return sidecar;
  }

  get address(): string {
    return this.#address;
  }

  get origin(): string {
    return `http://${this.address}`;
  }

  get url(): string {
    return `${this.origin}/mcp`;
  }

  /** The process of the MCP server that was started last. */
  get childPid(): number {
    // Starts that fail alike are not logged as started.
    return Number(this.logLines.findLast(({ msg }) => msg === "mcp server started" || msg === "mcp server ready")?.["childPid"]);
  }

  /** Waits for the process of a server other than the given one, since the log may be read later than a response. */
  async waitForChild(otherPid: number): Promise<number> {
    const { childPid } = await this.waitForLog("mcp server started", (line) => line["childPid"] !== otherPid);
    return Number(childPid);
  }

  /** Opens a client with a session. */
  client(options: ClientOptions = {}): Promise<McpClient> {
    return new McpClient(this.url, options).open();
  }

  /** Returns a client of MCP 2026-07-28, which has no session. */
  modernClient(options: ModernClientOptions = {}): ModernClient {
    return new ModernClient(this.url, options);
  }

  /** Returns the first log line, past or future, with this message that the predicate accepts. */
  async waitForLog(message: string, accepts: (line: LogLine) => boolean = () => true): Promise<LogLine> {
    const find = (): LogLine | undefined => this.logLines.find((line) => line.msg === message && accepts(line));
    return this.waitFor(find, `the log line "${message}"`);
  }

  /** Calls `find` again at each new log line until it returns a value. */
  async waitFor<Found>(find: () => Found | undefined, what: string): Promise<Found> {
    return new Promise((resolve, reject) => {
      const settle = (finish: () => void): void => {
        clearTimeout(timer);
        this.#onLog.delete(look);
        finish();
      };
      const look = (): void => {
        const found = find();
        if (found !== undefined) settle(() => resolve(found));
      };
      const fail = (why: string): void => settle(() => reject(new Error(`${why} before ${what}:\n${this.transcript()}`)));
      const timer = setTimeout(() => fail("timeout"), WAIT_TIMEOUT_MS);
      this.#onLog.add(look);
      void this.#closed.then((code) => setImmediate(() => (find() === undefined ? fail(`exit ${code}`) : look())));
      look();
    });
  }

  transcript(): string {
    return `${this.logLines.map((line) => JSON.stringify(line)).join("\n")}\n${this.stderr}`;
  }

  /** Sends SIGTERM. @returns the exit code. */
  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<number | null> {
    this.process.kill(signal);
    return (await this.exited).code;
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
      await this.stop();
      clearTimeout(killer);
    }
    const groups = this.logLines.filter(({ msg }) => msg === "mcp server started" || msg === "mcp server ready");
    const isLeaked = (line: LogLine): boolean => isGroupAlive(Number(line["childPid"]));
    // A killed process remains until PID 1 has reaped it, for which there is no event.
    const deadlineMs = performance.now() + REAP_TIMEOUT_MS;
    while (groups.some(isLeaked) && performance.now() < deadlineMs) await delay(10);
    const leaked = groups.filter(isLeaked);
    for (const line of leaked) process.kill(-Number(line["childPid"]), "SIGKILL");
    if (leaked.length > 0) throw new Error(`leaked processes: ${JSON.stringify(leaked)}`);
  }
}

/** Returns true if the process runs. A process that waits to be reaped does not. */
export function isAlive(pid: number): boolean {
  return processes().some((each) => each.pid === pid);
}

/** Returns true if a process of the group runs. */
export function isGroupAlive(leaderPid: number): boolean {
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
