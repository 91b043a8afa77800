import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DIRECTORY_VARIABLE, FAULT_LOG_FILE, type ProcessRecord } from "../contract.ts";
import { startTimeOf } from "../process-table.ts";

const directory = process.env[DIRECTORY_VARIABLE];

export function recordProcess(pid: number, kind: ProcessRecord["kind"]): void {
  if (directory === undefined) return;
  const record: ProcessRecord = { pid, startTime: startTimeOf(pid) ?? "", kind };
  writeFileSync(join(directory, `${pid}.json`), JSON.stringify(record));
}

/** Records a fault. Must be called before the fault, which may end the process. */
export function recordFault(name: string): void {
  if (directory !== undefined) appendFileSync(join(directory, FAULT_LOG_FILE), `${name} ${process.pid} ${Date.now()}\n`);
}

/** Returns the content of a file in the directory, or undefined if it does not exist. */
export function readSwitch(name: string): string | undefined {
  if (directory === undefined) return undefined;
  try {
    return readFileSync(join(directory, name), "utf8");
  } catch {
    return undefined;
  }
}
