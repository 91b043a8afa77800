import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

const POLL_INTERVAL_MS = 20;

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
