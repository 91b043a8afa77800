// The CPU time of a process and its descendants.

import { readdirSync, readFileSync } from "node:fs";

/** The unit of times in proc(5). */
const TICK_MS = 10;

interface Process {
  readonly parentPid: number;
  readonly cpuMs: number;
}

/** Returns the CPU time of a process and all that descend from it. Those that have ended count for their parent. */
export function treeCpuMs(rootPid: number): number {
  const processes = readProcesses();
  const sumOf = (pid: number): number => {
    const children = [...processes].filter(([, { parentPid }]) => parentPid === pid);
    return children.reduce((sum, [child]) => sum + sumOf(child), processes.get(pid)?.cpuMs ?? 0);
  };
  return sumOf(rootPid);
}

/** Reads proc(5): pid (name) state ppid … utime stime cutime cstime …, fields 14 to 17. */
function readProcesses(): Map<number, Process> {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return new Map(
    pids.flatMap((pid) => {
      const stat = statText(pid);
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      const ticks = fields.slice(11, 15).reduce((sum, each) => sum + Number(each), 0);
      return stat === "" ? [] : [[Number(pid), { parentPid: Number(fields[1]), cpuMs: ticks * TICK_MS }] as const];
    }),
  );
}

/** Empty if the process has ended since it was listed. */
function statText(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    return "";
  }
}
