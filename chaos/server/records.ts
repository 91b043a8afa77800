import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  CALLS_FILE_END,
  CALLS_VARIABLE,
  DIRECTORY_VARIABLE,
  FAULT_LOG_FILE,
  type ProcessRecord,
  REPLICA_VARIABLE,
  type ToolArguments,
} from "../contract.ts";
import { startTimeOf } from "../process-table.ts";

const directory = process.env[DIRECTORY_VARIABLE];
const replica = process.env[REPLICA_VARIABLE] ?? "";
const recordsCalls = process.env[CALLS_VARIABLE] !== undefined;

export function recordProcess(pid: number, kind: ProcessRecord["kind"]): void {
  if (directory === undefined) return;
  const record: ProcessRecord = { pid, startTime: startTimeOf(pid) ?? "", kind, replica };
  writeFileSync(join(directory, `${pid}.json`), JSON.stringify(record));
}

/** Records a fault. Must be called before the fault, which may end the process. */
export function recordFault(name: string): void {
  if (directory !== undefined) appendFileSync(join(directory, FAULT_LOG_FILE), `${name} ${process.pid} ${Date.now()}\n`);
}

/** Records the call if the driver wants to know of calls that are executed twice. */
export function recordCall({ client, nonce }: ToolArguments): void {
  if (directory !== undefined && recordsCalls) appendFileSync(join(directory, `${process.pid}${CALLS_FILE_END}`), `${client} ${nonce}\n`);
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
