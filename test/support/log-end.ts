import type { RunningSidecar } from "./running-sidecar.ts";

/** Waits for the sidecar's exit and the end of its log, which may come later. */
export function exitAndLogEnd(sidecar: RunningSidecar): Promise<number | null> {
  return sidecar.ended;
}

/** Signals the sidecar, and waits for both. */
export function stopAndReadLog(sidecar: RunningSidecar, signal: NodeJS.Signals = "SIGTERM"): Promise<number | null> {
  sidecar.kill(signal);
  return exitAndLogEnd(sidecar);
}
