// Reads /proc/PID/stat, see proc(5): pid (name) state ppid pgrp session tty tpgid flags … starttime, which is the 22nd field.

import { readFileSync } from "node:fs";

const START_TIME_INDEX = 19;

function fieldsOf(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return undefined;
  }
}

export function startTimeOf(pid: number): string | undefined {
  return fieldsOf(pid)?.[START_TIME_INDEX];
}

/** True if exactly this process runs. A zombie does not run. */
export function isRunning(pid: number, startTime: string): boolean {
  const fields = fieldsOf(pid);
  return fields !== undefined && fields[START_TIME_INDEX] === startTime && fields[0] !== "Z" && fields[0] !== "X";
}
