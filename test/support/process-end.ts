import { setTimeout as delay } from "node:timers/promises";
import { isAlive, isGroupAlive } from "./sidecar.ts";

/** Waits until nothing of the process group is left. The system tells only its parent of the end of a process, so this has to look. */
export async function groupEnd(leaderPid: number): Promise<void> {
  while (isGroupAlive(leaderPid)) await delay(5);
}

/** Waits until a process has ended. */
export async function processEnd(pid: number): Promise<void> {
  while (isAlive(pid)) await delay(5);
}
