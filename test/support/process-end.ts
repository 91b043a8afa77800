import { readFileSync } from "node:fs";
import { constants } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { isAlive, isGroupAlive } from "./sidecar.ts";

/** Many times as long as all graces of a server together. */
const MAX_WAIT_MS = 30_000;

export async function groupEnd(leaderPid: number): Promise<void> {
  await end(`the process group ${leaderPid}`, () => isGroupAlive(leaderPid));
}

export async function processEnd(pid: number): Promise<void> {
  await end(`the process ${pid}`, () => isAlive(pid));
}

/** The system reports the end of a process only to its parent, so this has to poll. */
async function end(what: string, goesOn: () => boolean): Promise<void> {
  const deadlineMs = performance.now() + MAX_WAIT_MS;
  while (goesOn()) {
    if (performance.now() > deadlineMs) throw new Error(`${what} has not ended within ${MAX_WAIT_MS / 1000} s`);
    await delay(5);
  }
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
