// The output of the server. Writes block, so that all output before an exit leaves the process.

import { writeSync } from "node:fs";

const RETRY_PAUSE_MS = 1;
const sleeper = new Int32Array(new SharedArrayBuffer(4));

/** Lines that wait for the second half of a line. */
const waiting: string[] = [];
let isLineOpen = false;

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
      // The wrapper has exited.
      if (code === "EPIPE") process.exit(0);
      if (code !== "EAGAIN") throw error;
      Atomics.wait(sleeper, 0, 0, RETRY_PAUSE_MS);
    }
  }
}
