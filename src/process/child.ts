import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { execa } from "execa";
import type { Outgoing } from "../mcp/message.ts";
import type { UpstreamTraffic } from "./port.ts";
import { type OutputListener, OutputReader, type ServerMemory, StdinWriter } from "./stdio.ts";

/** Exceeds any share of memory, which the kernel adds on the same scale of 0 to 1000. */
const FULL_SCORE = 1000;

/**
 * Returns how many processes of this process's cgroup the kernel has killed for lack of memory. The container, a group around it, or the
 * machine may have been short of it. A server is in the same cgroup. Undefined if the system does not tell.
 *
 * @param root replaces the root directory in tests.
 */
export function countMemoryKills(root = "/"): number | undefined {
  for (const file of counterFiles(root)) {
    const [, count] = /^oom_kill (\d+)$/m.exec(readText(file)) ?? [];
    if (count !== undefined) return Number(count);
  }
  return undefined;
}

/**
 * Calls `start`, which starts a process that the kernel is to choose before the sidecar when memory is short. The process inherits a higher
 * score, and so do its own. A write after the start would miss those that a shell starts at once. Any user may raise the score of an own
 * process, and lower it to what it was.
 *
 * @param root replaces the root directory in tests.
 */
export function withHigherScore<Started>(start: () => Started, root = "/"): Started {
  const file = join(root, "proc/self/oom_score_adj");
  const ownScore = Number.parseInt(readText(file), 10);
  if (Number.isNaN(ownScore)) return start();
  // Relative to the sidecar, so that the score of a protected pod stays below that of others.
  writeText(file, `${Math.min(FULL_SCORE, ownScore + FULL_SCORE)}\n`);
  try {
    return start();
  } finally {
    writeText(file, `${ownScore}\n`);
  }
}

/** The files that may have the count. The path in /proc is that of the host if the container has no cgroup namespace. */
function counterFiles(root: string): string[] {
  const cgroups = readText(join(root, "proc/self/cgroup"));
  const files: string[] = [];
  // cgroups(7): id:controllers:path. Version 2 has id 0 and no controllers.
  for (const [, controllers = "", path = ""] of cgroups.matchAll(/^\d+:([^:]*):(.*)$/gm)) {
    const isMemory = controllers.split(",").includes("memory");
    if (isMemory) for (const folder of [path, "/"]) files.push(join(root, "sys/fs/cgroup/memory", folder, "memory.oom_control"));
    if (controllers === "") for (const folder of [path, "/"]) files.push(join(root, "sys/fs/cgroup", folder, "memory.events"));
  }
  return files;
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

/** A failure does not matter: the kernel then chooses by size alone. */
function writeText(file: string, text: string): void {
  try {
    writeFileSync(file, text, { flag: "r+" });
  } catch {
    // The system does not allow it.
  }
}

const POLL_INTERVAL_MS = 20;

export interface ChildCommand {
  readonly command: string;
  readonly args: readonly string[];
  /** The complete environment; nothing is inherited. */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string | undefined;
}

export interface ProcessExit {
  readonly exitCode: number | undefined;
  readonly signal: string | undefined;
  /** Set if the process could not be started, for example ENOENT. */
  readonly spawnErrorCode: string | undefined;
}

/** A process that leads its own process group. */
export interface ProcessGroup {
  /** Undefined if the process could not be started. */
  readonly pid: number | undefined;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves when the leader has exited, which its pipes may outlast. Never rejects. */
  readonly exited: Promise<ProcessExit>;
  /** Signals every process of the group. @returns false if there is none; it must not be called again then. */
  signal(name: NodeJS.Signals): boolean;
  /** Waits until no process of the group runs. @returns false after `timeoutMs`. */
  waitForEnd(timeoutMs: number): Promise<boolean>;
}

export type StartProcess = (command: ChildCommand) => ProcessGroup;

/** Starts a process as the leader of its own group. The caller ends it; Execa does not. Only this file uses Execa. */
export const startProcess: StartProcess = ({ command, args, env, cwd }) => {
  const subprocess = withHigherScore(() =>
    execa(command, [...args], {
      env,
      extendEnv: false,
      ...(cwd === undefined ? {} : { cwd }),
      stdin: "pipe",
      stdout: "pipe",
      stderr: "pipe",
      buffer: false,
      reject: false,
      detached: true,
      cleanup: false,
      stripFinalNewline: false,
    }),
  );
  const { pid, stdin, stdout, stderr, nodeChildProcess } = subprocess;
  const waitForExit = async (): Promise<ProcessExit> => {
    if (pid === undefined) {
      const { code } = await subprocess;
      return { exitCode: undefined, signal: undefined, spawnErrorCode: code ?? "UNKNOWN" };
    }
    const [exitCode, signal] = (await once(nodeChildProcess, "exit")) as [number | null, string | null];
    return { exitCode: exitCode ?? undefined, signal: signal ?? undefined, spawnErrorCode: undefined };
  };
  return {
    pid,
    stdin,
    stdout,
    stderr,
    exited: waitForExit(),
    signal: (name) => pid !== undefined && signalGroup(pid, name),
    waitForEnd: async (timeoutMs) => pid === undefined || waitForGroupEnd(pid, timeoutMs),
  };
};

/**
 * Signals every process of the group that `leaderPid` leads, including grandchildren. The system does not reuse the number while a member
 * exists. So this never signals another process, provided that it is not called again after it has returned false.
 *
 * @returns false if the group has no process.
 */
export function signalGroup(leaderPid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-leaderPid, signal);
  } catch {
    return false;
  }
}

/** Waits until no process of the group runs. @returns false after `timeoutMs`. */
export async function waitForGroupEnd(leaderPid: number, timeoutMs: number): Promise<boolean> {
  const deadlineMs = performance.now() + timeoutMs;
  while (signalGroup(leaderPid, 0) && !hasOnlyZombies(leaderPid)) {
    if (performance.now() >= deadlineMs) return false;
    await delay(POLL_INTERVAL_MS);
  }
  return true;
}

/**
 * True if all members of the group are zombies that wait for PID 1 to reap them. That may take long and cannot be hastened. False if /proc
 * does not exist.
 */
function hasOnlyZombies(groupId: number): boolean {
  try {
    return readdirSync("/proc").every((name) => !/^\d+$/.test(name) || !isRunningMember(name, groupId));
  } catch {
    return false;
  }
}

function isRunningMember(pid: string, groupId: number): boolean {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    // The process has exited since the listing.
    return false;
  }
  // proc(5): pid (name) state ppid pgrp …; the name may hold anything, parentheses included.
  const [state, , group] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return Number(group) === groupId && state !== "Z" && state !== "X";
}

/** The wait for further output after the exit. It is bounded because a grandchild may hold the pipe open without ever writing to it. */
const OUTPUT_AFTER_EXIT_MS = 500;
/** A process cannot ignore SIGKILL; only one in uninterruptible sleep outlasts this. */
const KILL_GRACE_MS = 2000;

export interface ChildLimits {
  readonly maxLineBytes: number;
  /** The time from the close of stdin to SIGTERM. */
  readonly stdinGraceMs: number;
  /** The time from SIGTERM to SIGKILL. */
  readonly termGraceMs: number;
}

/** The time that every server has to exit by itself. */
export const STOP_GRACES = { stdinGraceMs: 1000, termGraceMs: 2000 } as const satisfies Partial<ChildLimits>;

interface ChildListener extends OutputListener {
  onStderr(chunk: Buffer): void;
  /** Called when the server closes its stdin or stdout but keeps running. The server can no longer be used and must be stopped. */
  onBroken(pipe: "stdin" | "stdout"): void;
}

export interface ChildExit extends ProcessExit {
  /** True if the kernel has killed processes for lack of memory since the start. They need not be of this server. */
  readonly hadMemoryKills: boolean;
}

/** The process of one generation. */
export class ChildProcess {
  /** Undefined if the process could not be started. */
  readonly pid: number | undefined;
  /** Resolves when the process has exited and its last output is delivered. Never rejects. */
  readonly exited: Promise<ChildExit>;
  /** Resolves when, after `exited`, no process of its group is left. Never rejects. */
  readonly ended: Promise<ChildExit>;
  readonly #process: ProcessGroup;
  readonly #limits: ChildLimits;
  readonly input: StdinWriter;
  readonly #output: OutputReader;
  #outputs = 0;
  readonly #memoryKillsBefore = countMemoryKills();
  #hasExited = false;

  constructor(start: StartProcess, command: ChildCommand, limits: ChildLimits, memory: ServerMemory, listener: ChildListener) {
    this.#limits = limits;
    this.#process = start(command);
    const { stdin, stdout, stderr } = this.#process;
    this.pid = this.#process.pid;
    this.input = new StdinWriter(stdin, (error) => listener.onDefect(error));
    stdin.on("error", () => this.#onBroken(listener, "stdin"));

    const output = new OutputReader(stdout, limits.maxLineBytes, memory, listener);
    this.#output = output;
    stdout.on("data", () => this.#outputs++);
    const outputEnded = new Promise<void>((resolve) => {
      stdout.once("error", () => stdout.destroy());
      stdout.once("close", () => {
        output.end();
        this.input.pause();
        this.#onBroken(listener, "stdout");
        resolve();
      });
    });
    stderr.on("data", (chunk: Buffer) => {
      try {
        listener.onStderr(chunk);
      } catch (error) {
        listener.onDefect(error);
      }
      // Up to 2 MiB of short lines would otherwise be handled in one turn.
      stderr.pause();
      setImmediate(() => stderr.resume());
    });
    stderr.once("error", () => stderr.destroy());
    const stderrEnded = new Promise<void>((resolve) => stderr.once("close", resolve));
    this.exited = this.#waitForExit(Promise.all([outputEnded, stderrEnded]));
    this.ended = this.#waitForEnd();
  }

  get traffic(): UpstreamTraffic {
    return { outputs: this.#outputs, isReading: this.#output.isReading, inputs: this.input.writes };
  }

  /** Stops writing. */
  pause(): void {
    this.input.pause();
  }

  takeUnwritten(): Outgoing[] {
    return this.input.takeUnwritten();
  }

  /**
   * Closes stdin, then sends SIGTERM to the group, then SIGKILL (MCP 2025-11-25, basic/lifecycle, shutdown). The waits between these steps
   * are bounded.
   *
   * @param mayFinish false to send SIGTERM at once, because the process does not read its stdin yet.
   */
  async stop(mayFinish = true): Promise<ChildExit> {
    this.input.end();
    if (mayFinish && (await settlesWithin(this.ended, this.#limits.stdinGraceMs))) return this.ended;
    this.#process.signal("SIGTERM");
    if (await settlesWithin(this.ended, this.#limits.termGraceMs)) return this.ended;
    this.kill();
    return this.ended;
  }

  /** Sends SIGKILL to the group. */
  kill(): void {
    this.#process.signal("SIGKILL");
  }

  #onBroken(listener: ChildListener, pipe: "stdin" | "stdout"): void {
    // The exit is often seen a moment after the pipes close. The exit is then the cause to report.
    setTimeout(() => {
      try {
        if (!this.#hasExited) listener.onBroken(pipe);
      } catch (error) {
        listener.onDefect(error);
      }
    }, OUTPUT_AFTER_EXIT_MS).unref();
  }

  async #waitForExit(outputEnded: Promise<unknown>): Promise<ChildExit> {
    const exit = await this.#process.exited;
    const hadMemoryKills = this.pid !== undefined && (countMemoryKills() ?? 0) > (this.#memoryKillsBefore ?? Number.POSITIVE_INFINITY);
    this.#hasExited = true;
    await this.#output.whenIdle();
    await settlesWithin(outputEnded, OUTPUT_AFTER_EXIT_MS);
    await this.#output.whenIdle();
    return { ...exit, hadMemoryKills };
  }

  async #waitForEnd(): Promise<ChildExit> {
    const exit = await this.exited;
    this.#output.release();
    await this.#endGroup();
    this.#process.stdin.destroy();
    this.#process.stdout.destroy();
    this.#process.stderr.destroy();
    return exit;
  }

  /** Terminates the processes that the exited one left behind in its group. */
  async #endGroup(): Promise<void> {
    if (!this.#process.signal("SIGTERM")) return;
    if (await this.#process.waitForEnd(this.#limits.termGraceMs)) return;
    this.#process.signal("SIGKILL");
    await this.#process.waitForEnd(KILL_GRACE_MS);
  }
}

/** Resolves to true if the promise resolves within the timeout. */
async function settlesWithin(promise: Promise<unknown>, timeoutMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, timeoutMs, false);
  });
  try {
    return await Promise.race([promise.then(() => true), timeout]);
  } finally {
    clearTimeout(timer);
  }
}
