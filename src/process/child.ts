import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { execa } from "execa";

/** The kernel adds a share of memory on the same scale of 0 to 1000. */
const FULL_SCORE = 1000;

/**
 * Counts the processes of this cgroup that the kernel has killed for lack of memory. The container, a group around it, or the machine may
 * have been short of it.
 *
 * @param root another one in tests. @returns undefined if the system does not tell.
 */
export function countMemoryKills(root = "/"): number | undefined {
  // cgroups(7): id:controllers:path. Version 2 has id 0 and no controllers.
  for (const [, controllers = "", path = ""] of readText(join(root, "proc/self/cgroup")).matchAll(/^\d+:([^:]*):(.*)$/gm)) {
    if (controllers !== "" && !controllers.split(",").includes("memory")) continue;
    const [mount, name] = controllers === "" ? ["sys/fs/cgroup", "memory.events"] : ["sys/fs/cgroup/memory", "memory.oom_control"];
    for (const folder of [path, "/"]) {
      const [, count] = /^oom_kill (\d+)$/m.exec(readText(join(root, mount, folder, name))) ?? [];
      if (count !== undefined) return Number(count);
    }
  }
  return undefined;
}

/**
 * The new process and its children inherit a higher score, so the kernel ends them before the sidecar when memory is short. A write after
 * the start would miss children that a shell starts at once. Any user may raise the score of an own process, and lower it to what it was.
 */
export function withHigherScore<Started>(start: () => Started, root = "/"): Started {
  const file = join(root, "proc/self/oom_score_adj");
  const ownScore = Number.parseInt(readText(file), 10);
  if (Number.isNaN(ownScore)) return start();
  writeText(file, `${Math.min(FULL_SCORE, ownScore + FULL_SCORE)}\n`);
  try {
    return start();
  } finally {
    writeText(file, `${ownScore}\n`);
  }
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

function writeText(file: string, text: string): void {
  try {
    writeFileSync(file, text, { flag: "r+" });
  } catch {
    // The kernel then chooses by size alone.
  }
}

const POLL_INTERVAL_MS = 20;

export interface ChildCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string | undefined;
}

export interface ProcessExit {
  readonly exitCode: number | undefined;
  readonly signal: string | undefined;
  readonly spawnErrorCode: string | undefined;
  /** Counted since the start. The killed processes need not be of this server. */
  readonly hadMemoryKills?: boolean;
}

export interface ProcessGroup {
  readonly pid: number | undefined;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** The pipes may outlast the leader. Never rejects. */
  readonly exited: Promise<ProcessExit>;
  /** @returns false if there is no process; it must not be called again then. */
  signal(name: NodeJS.Signals): boolean;
  /** @returns false after `timeoutMs`. */
  waitForEnd(timeoutMs: number): Promise<boolean>;
}

/** The process leads its own group. The caller ends it, not Execa. */
export function startProcess({ command, args, env, cwd }: ChildCommand): ProcessGroup {
  const killsBefore = countMemoryKills() ?? Infinity;
  const subprocess = withHigherScore(() =>
    execa(command, [...args], {
      env,
      extendEnv: false,
      ...(cwd === undefined ? {} : { cwd }),
      buffer: false,
      reject: false,
      killDescendants: true,
      forceKillAfterDelay: false,
      cleanup: false,
    }),
  );
  const { pid, stdin, stdout, stderr, nodeChildProcess } = subprocess;
  const waitForExit = async (): Promise<ProcessExit> => {
    if (pid === undefined) {
      const { code } = await subprocess;
      return { exitCode: undefined, signal: undefined, spawnErrorCode: code ?? "UNKNOWN" };
    }
    const [exitCode, signal] = (await once(nodeChildProcess, "exit")) as [number | null, string | null];
    const hadMemoryKills = (countMemoryKills() ?? 0) > killsBefore;
    return { exitCode: exitCode ?? undefined, signal: signal ?? undefined, spawnErrorCode: undefined, hadMemoryKills };
  };
  return {
    pid,
    stdin,
    stdout,
    stderr,
    exited: waitForExit(),
    signal: subprocess.kill.bind(subprocess),
    waitForEnd: async (timeoutMs) => pid === undefined || waitForGroupEnd(pid, timeoutMs),
  };
}

export async function waitForGroupEnd(leaderPid: number, timeoutMs: number): Promise<boolean> {
  const deadlineMs = performance.now() + timeoutMs;
  while (groupExists(leaderPid) && !hasOnlyZombies(leaderPid)) {
    if (performance.now() >= deadlineMs) return false;
    await delay(POLL_INTERVAL_MS);
  }
  return true;
}

/** A zombie counts, since the system does not reuse the group's number until it is gone. */
export function groupExists(leaderPid: number): boolean {
  try {
    return process.kill(-leaderPid, 0);
  } catch {
    return false;
  }
}

/** The zombies wait for PID 1 to reap them, which may take long. False if /proc does not exist. */
function hasOnlyZombies(groupId: number): boolean {
  try {
    return readdirSync("/proc").every((pid) => {
      if (!/^\d+$/.test(pid)) return true;
      const stat = readText(`/proc/${pid}/stat`);
      // proc(5): pid (name) state ppid pgrp …; the name may hold anything, parentheses included.
      const [state, , group] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      return Number(group) !== groupId || state === "Z" || state === "X";
    });
  } catch {
    return false;
  }
}
