import { readFileSync } from "node:fs";
import { constants } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { isAlive, isGroupAlive } from "./sidecar.ts";

/** Waits until no process of the group is left. The system reports the end of a process only to its parent, so this has to poll. */
export async function groupEnd(leaderPid: number): Promise<void> {
  while (isGroupAlive(leaderPid)) await delay(5);
}

/** Waits until a process has ended. */
export async function processEnd(pid: number): Promise<void> {
  while (isAlive(pid)) await delay(5);
}

/** Waits until a sent signal is no longer pending: until then, the kernel would merge a second one with it. */
export async function signalTaken(pid: number, signal: NodeJS.Signals): Promise<void> {
  while (isPending(pid, constants.signals[signal])) await delay(5);
}

/** Reads proc(5): SigPnd and ShdPnd are masks, of the main thread and of the process. */
function isPending(pid: number, number: number): boolean {
  const masks = readFileSync(`/proc/${pid}/status`, "utf8").matchAll(/^(?:SigPnd|ShdPnd):\s*(?<mask>[0-9a-f]+)$/gm);
  return masks.some(({ groups }) => ((BigInt(`0x${groups?.["mask"]}`) >> BigInt(number - 1)) & 1n) === 1n);
}
