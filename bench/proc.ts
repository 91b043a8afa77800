// What Linux knows of a process: proc(5).

import { readdirSync, readFileSync } from "node:fs";

const TICK_MS = 10;
/** The indices of fields after the name of the process. */
const STATE = 0;
const PARENT = 1;
/** The times of the process, and of its children that have ended, in user and kernel mode. */
const CPU_TIMES = [11, 15] as const;
const START_TIME = 19;

/** Returns the resident memory of one process without its children, in bytes: the current one (`VmRSS`) or the peak (`VmHWM`). NaN after its end. */
export function memoryBytes(pid: number, field: "VmRSS" | "VmHWM"): number {
  return 1024 * Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(readProc(`${pid}/status`) ?? "")?.[1]);
}

/** Returns the CPU time of a process and all below it. */
export function treeCpuMs(rootPid: number): number {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const processes = pids.map((pid) => ({ pid: Number(pid), fields: fieldsOf(Number(pid)) ?? [] }));
  const sumOf = (pid: number): number =>
    processes.reduce((sum, each) => {
      if (each.pid === pid) return sum + cpuMs(each.fields);
      return Number(each.fields[PARENT]) === pid ? sum + sumOf(each.pid) : sum;
    }, 0);
  return sumOf(rootPid);
}

/** Together with the pid, it identifies a process, even if the pid is reused. */
export function startTimeOf(pid: number): string | undefined {
  return fieldsOf(pid)?.[START_TIME];
}

/** True if exactly this process runs. A zombie does not run. */
export function isRunning(pid: number, startTime: string): boolean {
  const fields = fieldsOf(pid);
  return fields !== undefined && fields[START_TIME] === startTime && fields[STATE] !== "Z" && fields[STATE] !== "X";
}

function cpuMs(fields: readonly string[]): number {
  return fields.slice(...CPU_TIMES).reduce((sum, ticks) => sum + Number(ticks), 0) * TICK_MS;
}

function fieldsOf(pid: number): readonly string[] | undefined {
  const stat = readProc(`${pid}/stat`);
  return stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
}

/** @returns undefined if the process has ended. */
export function readProc(path: string): string | undefined {
  try {
    return readFileSync(`/proc/${path}`, "latin1");
  } catch {
    return undefined;
  }
}
