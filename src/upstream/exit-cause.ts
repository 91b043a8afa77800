import type { ExitKind } from "../observability/counters.ts";
import type { ChildExit } from "./child-process.ts";

/** The cause of a generation's exit. */
export interface ExitCause {
  readonly kind: ExitKind;
  /** Text for people. */
  readonly reason: string;
}

/** A program that is not an MCP server often does its work, ignores its input, and exits with code 0. */
const OTHER_PROGRAM = "; is it an MCP server that speaks on stdin and stdout?";

/** The exit code of a shell or npm if SIGKILL ended the server that it had started: 128 + 9. */
const KILLED_CODE = 137;

/**
 * Returns the cause of an exit that the sidecar did not request.
 *
 * @param awaited the method of the request that was not answered yet.
 * @param refusal the error that an earlier request of the same handshake got.
 */
export function describeExit(exit: ChildExit, awaited?: string, refusal?: string): ExitCause {
  const { kind, reason } = describeEnd(exit, awaited);
  return { kind, reason: refusal === undefined ? reason : `${refusal}; then it ${reason}` };
}

function describeEnd({ exitCode, signal, spawnErrorCode, hadMemoryKills }: ChildExit, awaited: string | undefined): ExitCause {
  if (spawnErrorCode !== undefined) return { kind: "spawn-failed", reason: `could not be started (${spawnErrorCode})` };
  const before = awaited === undefined ? "" : ` before it answered ${awaited}`;
  if (hadMemoryKills && (signal === "SIGKILL" || exitCode === KILLED_CODE)) {
    const how = signal === undefined ? `exited with code ${KILLED_CODE}` : `ended by ${signal}`;
    return { kind: "out-of-memory", reason: `${how}${before}: the kernel killed it for lack of memory` };
  }
  if (signal !== undefined) return { kind: "signal", reason: `ended by ${signal}${before}` };
  if (exitCode !== 0) return { kind: "crash", reason: `exited with code ${exitCode ?? "unknown"}${before}` };
  return { kind: "clean-exit", reason: `exited with code 0${before}${awaited === "initialize" ? OTHER_PROGRAM : ""}` };
}

/** Errors of a start that a retry cannot repair. Others, such as EAGAIN, mean that the machine is short of a resource. */
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

/** True if the command cannot be run at all. At the first start this means that the configuration is wrong. */
export function isCommandUnusable({ spawnErrorCode }: ChildExit): boolean {
  return spawnErrorCode !== undefined && UNUSABLE_COMMAND_CODES.has(spawnErrorCode);
}
