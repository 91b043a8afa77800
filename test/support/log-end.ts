import { finished } from "node:stream/promises";
import type { Sidecar } from "./sidecar.ts";

/** Waits for the sidecar's exit and the end of its log, which may come later. */
export async function exitAndLogEnd(sidecar: Sidecar): Promise<number | null> {
  const { code } = await sidecar.exited;
  if (sidecar.process.stdout !== null) await finished(sidecar.process.stdout, { writable: false });
  return code;
}

/** Signals the sidecar, and waits for both. */
export function stopAndReadLog(sidecar: Sidecar, signal: NodeJS.Signals = "SIGTERM"): Promise<number | null> {
  sidecar.process.kill(signal);
  return exitAndLogEnd(sidecar);
}
