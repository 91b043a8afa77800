// A real pipe whose other end is read and thrown away by another process, as a
// container runtime would read a target's log. Node's own "pipe" is a socket and
// would make this process read every log line.

import { execFileSync, spawn } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Returns the file descriptor to write to; the reader ends when its last copy is closed. */
export function openLogDrain(): number {
  const directory = mkdtempSync(join(tmpdir(), "bench-log-"));
  const fifo = join(directory, "log");
  execFileSync("mkfifo", [fifo]);
  const reader = spawn("sh", ["-c", 'exec cat < "$1" > /dev/null', "sh", fifo], {
    stdio: "ignore",
  });
  reader.unref();
  // Waits until the reader has opened its end, so the name is not needed afterwards.
  const writeFd = openSync(fifo, "w");
  rmSync(directory, { recursive: true });
  return writeFd;
}

export function closeLogDrain(writeFd: number): void {
  closeSync(writeFd);
}
