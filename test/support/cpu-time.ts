import { readFileSync } from "node:fs";

/** The unit of times in proc(5), which is the same on all machines that Node supports. */
const MS_PER_TICK = 10;

/** Returns the CPU time of this thread for the work, without that of other programs. */
export function cpuMsOf(work: () => void): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}

/** Returns the CPU time that a process has used until now, from proc(5), in milliseconds. @throws if it has ended and been reaped. */
export function cpuMsOfProcess(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const [userTicks, systemTicks] = stat
    .slice(stat.lastIndexOf(")") + 2)
    .split(" ")
    .slice(11, 13)
    .map(Number);
  return ((userTicks ?? 0) + (systemTicks ?? 0)) * MS_PER_TICK;
}
