import { readFileSync } from "node:fs";

/** Returns the resident memory of one process without its children, in bytes: the current one (`VmRSS`) or the peak (`VmHWM`). */
export function memoryBytes(pid: number, field: "VmRSS" | "VmHWM"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const kibibytes = new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1];
  if (kibibytes === undefined) throw new Error(`no ${field} of process ${pid}`);
  return Number(kibibytes) * 1024;
}
