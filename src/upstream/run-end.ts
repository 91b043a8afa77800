import type { ExitKind } from "../counters.ts";
import type { ChildExit } from "./child-process.ts";

/** Why a run ended. */
export interface RunEnd {
  readonly kind: ExitKind;
  /** For people. */
  readonly reason: string;
}

/** What an exit means that nobody has asked for. */
export function describeExit({ exitCode, signal, spawnErrorCode }: ChildExit): RunEnd {
  if (spawnErrorCode !== undefined) return { kind: "spawn-failed", reason: `could not be started (${spawnErrorCode})` };
  if (signal !== undefined) return { kind: "signal", reason: `ended by ${signal}` };
  return { kind: exitCode === 0 ? "clean-exit" : "crash", reason: `exited with code ${exitCode ?? "unknown"}` };
}

/** Errors of spawning that no retry mends; others, such as EAGAIN, say that the machine is short of something. */
const UNUSABLE_COMMAND_CODES: ReadonlySet<string> = new Set([
  "ENOENT",
  "EACCES",
  "EPERM",
  "ENOTDIR",
  "ELOOP",
  "ENAMETOOLONG",
  "ENOEXEC",
  "EISDIR",
  "E2BIG",
]);

/** Whether there is no program to run: where that was so from the beginning, the configuration is wrong. */
export function isCommandUnusable({ spawnErrorCode }: ChildExit): boolean {
  return spawnErrorCode !== undefined && UNUSABLE_COMMAND_CODES.has(spawnErrorCode);
}
