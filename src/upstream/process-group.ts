import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { execa } from "execa";
import { withHigherScore } from "./out-of-memory.ts";

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
