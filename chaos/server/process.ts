// The output of a misbehaving server, and the files that it shares with the driver. Writes block, so that all output before an exit leaves the process.

import { appendFileSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { startTimeOf } from "../../bench/proc.ts";
import { CALLS_FILE_END, DIRECTORY_VARIABLE, FAULT_LOG_FILE, type ProcessRecord, type ToolArguments } from "../contract.ts";

const RETRY_PAUSE_MS = 1;
const sleeper = new Int32Array(new SharedArrayBuffer(4));

/** Lines that wait for the second half of a line. */
const waiting: string[] = [];
let isLineOpen = false;

/** Reads the lines of the standard input. Its end, at which the sidecar has exited or terminates this server, ends the process. */
export function readLines(onLine: (line: string) => void): void {
  let pieces: string[] = [];
  process.stdin.setEncoding("utf8");
  process.stdin.on("data", (chunk: string) => {
    pieces.push(chunk);
    if (!chunk.includes("\n")) return;
    const lines = pieces.join("").split("\n");
    pieces = [lines.pop() ?? ""];
    for (const line of lines) if (line !== "") onLine(line);
  });
  process.stdin.on("end", () => process.exit(0));
}

export function say(message: object): void {
  sayLine(JSON.stringify({ jsonrpc: "2.0", ...message }));
}

export function sayLine(line: string): void {
  if (isLineOpen) waiting.push(line);
  else writeAll(1, `${line}\n`);
}

/** Writes the line in two parts, with a pause between them. */
export function sayInHalves(bytes: Buffer, cutAt: number, pauseMs: number): void {
  if (isLineOpen) return sayLine(bytes.toString());
  isLineOpen = true;
  writeAll(1, bytes.subarray(0, cutAt));
  setTimeout(() => {
    writeAll(1, bytes.subarray(cutAt));
    writeAll(1, "\n");
    isLineOpen = false;
    for (const line of waiting.splice(0)) sayLine(line);
  }, pauseMs);
}

export function writeAll(fd: number, content: string | Buffer): void {
  let bytes = Buffer.from(content);
  while (bytes.length > 0) {
    try {
      bytes = bytes.subarray(writeSync(fd, bytes));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // The sidecar has exited.
      if (code === "EPIPE") process.exit(0);
      if (code !== "EAGAIN") throw error;
      Atomics.wait(sleeper, 0, 0, RETRY_PAUSE_MS);
    }
  }
}

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

/** Records the call, so that the driver sees calls that are executed twice. */
export function recordCall({ client, nonce }: ToolArguments): void {
  if (directory !== undefined) appendFileSync(join(directory, `${process.pid}${CALLS_FILE_END}`), `${client} ${nonce}\n`);
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
