// The process of a program under test: its start, its memory and its end. Bench, chaos and hostile start all sidecars with it.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, createReadStream, mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../test/support/open-sockets.ts";
import { send } from "../test/support/http-client.ts";
import { memoryBytes } from "./proc.ts";

/** A program that serves a stdio MCP server over HTTP at `/mcp`. */
export interface Program {
  readonly name: string;
  readonly token: string | undefined;
  readonly environment: Readonly<Record<string, string>>;
  readonly healthPath: string;
  /** Arguments for the Node that runs this process. */
  readonly nodeArgs: (port: number) => readonly string[];
}

export interface ProgramEnd {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly tookMs: number;
  /** True if it did not exit after SIGTERM and was killed. */
  readonly isForced: boolean;
}

export const MAIN = join(import.meta.dirname, "..", "dist", "main.js");

const READY_DEADLINE_MS = 120_000;
const READY_POLL_MS = 2;
const END_DEADLINE_MS = 60_000;
const KEPT_CHARS = 2000;
const UNHANDLED = /unhandled ?(promise ?)?rejection|uncaught ?exception|triggerUncaughtException/i;

const running = new Set<number>();
process.on("exit", () => {
  for (const groupId of running) killGroup(groupId);
});

export class ProgramProcess {
  readonly program: Program;
  readonly port: number;
  readonly origin: string;
  readonly url: string;
  readonly pid: number;
  /** The time from the start of the process to the first 200 of its health path. */
  readyMs = Number.NaN;
  /** Describes an exit without a signal of this process; undefined if there was none. */
  endedByItself: string | undefined;
  readonly #child: ChildProcess;
  readonly #logFile: string | undefined;
  readonly #exited: Promise<unknown>;
  #isEnding = false;
  #errorOutput = "";

  private constructor(program: Program, port: number, child: ChildProcess, pid: number, logFile: string | undefined) {
    this.program = program;
    this.port = port;
    this.origin = `http://127.0.0.1:${port}`;
    this.url = `${this.origin}/mcp`;
    this.pid = pid;
    this.#child = child;
    this.#logFile = logFile;
    running.add(pid);
    this.#exited = once(child, "exit");
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (this.#errorOutput = (this.#errorOutput + text).slice(-KEPT_CHARS)));
    child.once("exit", (code, signal) => {
      running.delete(pid);
      if (!this.#isEnding) this.endedByItself = `exit ${code ?? signal ?? "unknown"}`;
    });
  }

  /** Starts a program. Resolves when it is ready. @param logFile gets its output; by default, another process reads and discards it. */
  static async start(program: Program, logFile?: string): Promise<ProgramProcess> {
    const port = await freePort();
    const logFd = logFile === undefined ? openLogDrain() : openSync(logFile, "a");
    const startedAtMs = performance.now();
    const child = spawn(process.execPath, program.nodeArgs(port), {
      // It has its own process group, so that all processes in the group can be killed.
      detached: true,
      env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...program.environment },
      stdio: ["ignore", logFd, logFile === undefined ? "pipe" : logFd],
    });
    closeSync(logFd);
    if (child.pid === undefined) throw new Error(`${program.name} could not be started`);
    const started = new ProgramProcess(program, port, child, child.pid, logFile);
    await started.#waitUntilReady(startedAtMs);
    return started;
  }

  /** The memory of the process itself, without that of its servers. NaN after its exit. */
  memoryBytes(field: "VmRSS" | "VmHWM" = "VmRSS"): number {
    return memoryBytes(this.pid, field);
  }

  async #isReady(): Promise<boolean> {
    const reply = await send(new URL(this.program.healthPath, this.origin), { method: "GET", agent: false }).catch(() => undefined);
    return reply?.status === 200;
  }

  /** Sends SIGTERM, then SIGKILL if it does not exit. May be called again. */
  async end(deadlineMs = END_DEADLINE_MS): Promise<ProgramEnd> {
    const startedAtMs = performance.now();
    this.#isEnding = true;
    this.#child.kill("SIGTERM");
    const deadline = new AbortController();
    await Promise.race([this.#exited, sleep(deadlineMs, undefined, { signal: deadline.signal }).catch(() => undefined)]);
    deadline.abort();
    const isForced = !this.#hasExited;
    const tookMs = performance.now() - startedAtMs;
    killGroup(this.pid);
    await this.#exited;
    const { exitCode, signalCode } = this.#child;
    return { exitCode, signal: signalCode, tookMs, isForced };
  }

  async unhandledErrors(): Promise<string[]> {
    const lines: string[] = [];
    if (this.#logFile === undefined) return lines;
    for await (const line of createInterface({ input: createReadStream(this.#logFile) })) {
      if (UNHANDLED.test(line)) lines.push(line.slice(0, 300));
    }
    return lines;
  }

  get #hasExited(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  async #waitUntilReady(startedAtMs: number): Promise<void> {
    const { name } = this.program;
    const hint = (): string => (this.#logFile === undefined ? `: ${this.#errorOutput}` : `; see ${this.#logFile}`);
    while (!(await this.#isReady())) {
      if (this.#hasExited) throw new Error(`${name} exited before it was ready${hint()}`);
      if (performance.now() > startedAtMs + READY_DEADLINE_MS) throw new Error(`${name} was not ready in time${hint()}`);
      await sleep(READY_POLL_MS);
    }
    this.readyMs = performance.now() - startedAtMs;
  }
}

/**
 * Returns the file descriptor of a pipe that another process reads, like a container runtime that reads a log. Node's own "pipe" is a
 * socket, and this process would have to read every line.
 */
function openLogDrain(): number {
  const directory = mkdtempSync(join(tmpdir(), "bench-log-"));
  const fifo = join(directory, "log");
  execFileSync("mkfifo", [fifo]);
  spawn("sh", ["-c", 'exec cat < "$1" > /dev/null', "sh", fifo], { stdio: "ignore" }).unref();
  // Blocks until the reader has opened its end, after which the name is not needed.
  const writeFd = openSync(fifo, "w");
  rmSync(directory, { recursive: true });
  return writeFd;
}

function killGroup(groupId: number): void {
  try {
    process.kill(-groupId, "SIGKILL");
  } catch {
    // The group has no process left.
  }
}
