import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

const POLL_INTERVAL_MS = 20;

/**
 * Signals every process of the group that `leaderPid` leads, grandchildren included. The number stays reserved while any member lives,
 * so this cannot hit a stranger as long as it is not used after it has once returned false.
 *
 * @returns false when nothing is left to signal.
 */
export function signalGroup(leaderPid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-leaderPid, signal);
  } catch {
    return false;
  }
}

/** Waits until nothing of the group runs, at most `timeoutMs`. */
export async function waitForGroupEnd(leaderPid: number, timeoutMs: number): Promise<boolean> {
  const deadlineMs = performance.now() + timeoutMs;
  while (signalGroup(leaderPid, 0) && !hasOnlyZombies(leaderPid)) {
    if (performance.now() >= deadlineMs) return false;
    await delay(POLL_INTERVAL_MS);
  }
  return true;
}

/**
 * Whether all members of a group have ended and only wait to be reaped by PID 1: that may take long, and nothing can be done about it.
 * False where there is no /proc.
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
    // Gone since the listing.
    return false;
  }
  // proc(5): pid (name) state ppid pgrp …; the name may hold anything, parentheses included.
  const [state, , group] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return Number(group) === groupId && state !== "Z" && state !== "X";
}
