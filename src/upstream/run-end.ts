import type { ExitKind } from "../counters.ts";
import type { ChildExit } from "./child-process.ts";

/** Why a run ended. */
export interface RunEnd {
  readonly kind: ExitKind;
  /** For people. */
  readonly reason: string;
}

/** A program of another kind often does its work, says nothing of what it was asked, and exits with 0. */
const OTHER_PROGRAM = "; is it an MCP server that speaks on stdin and stdout?";

/**
 * What an exit means that nobody has asked for.
 *
 * @param awaited the method that it had still to answer.
 */
export function describeExit({ exitCode, signal, spawnErrorCode }: ChildExit, awaited?: string): RunEnd {
  if (spawnErrorCode !== undefined) return { kind: "spawn-failed", reason: `could not be started (${spawnErrorCode})` };
  const before = awaited === undefined ? "" : ` before it answered ${awaited}`;
  if (signal !== undefined) return { kind: "signal", reason: `ended by ${signal}${before}` };
  if (exitCode !== 0) return { kind: "crash", reason: `exited with code ${exitCode ?? "unknown"}${before}` };
  return { kind: "clean-exit", reason: `exited with code 0${before}${awaited === "initialize" ? OTHER_PROGRAM : ""}` };
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
