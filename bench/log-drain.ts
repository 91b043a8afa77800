// A pipe whose output another process reads and discards, like a container
// runtime that reads a target's log. Node's own "pipe" is a socket, and this
// process would have to read every log line.

import { execFileSync, spawn } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Returns the file descriptor for writing. The reader exits when the last copy of it is closed. */
export function openLogDrain(): number {
  const directory = mkdtempSync(join(tmpdir(), "bench-log-"));
  const fifo = join(directory, "log");
  execFileSync("mkfifo", [fifo]);
  const reader = spawn("sh", ["-c", 'exec cat < "$1" > /dev/null', "sh", fifo], {
    stdio: "ignore",
  });
  reader.unref();
  // Blocks until the reader has opened its end, after which the name is not needed.
  const writeFd = openSync(fifo, "w");
  rmSync(directory, { recursive: true });
  return writeFd;
}

export function closeLogDrain(writeFd: number): void {
  closeSync(writeFd);
}
