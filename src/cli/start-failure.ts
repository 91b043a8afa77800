import { constants } from "node:os";
import { nearest } from "../config/command-line.ts";
import { OPTIONS } from "../config/options.ts";
import { maskCommand } from "../config/secret-file.ts";
import { describeError } from "../mcp/errors.ts";
import type { ExitKind } from "../observe/record.ts";
import type { Log } from "../observe/log.ts";
import type { UpstreamExit } from "../process/port.ts";
import { ExitCode } from "./terminal.ts";

/** Neither `problem` nor `fix` begins with a capital letter or ends with a full stop. */
export interface StartFailure {
  readonly problem: string;
  readonly fix: string | undefined;
  readonly exitCode: number;
  readonly report: (log: Log, reason: string) => void;
  /** With secrets masked. */
  readonly output?: readonly string[];
}

/** Commands of other programs. */
const SYNONYMS: ReadonlyMap<string, string> = new Map([
  ["start", "serve"],
  ["run", "serve"],
]);

/** Their reason describes the exit itself; others say why the sidecar has ended the server. */
export const OWN_EXITS: ReadonlySet<ExitKind> = new Set<ExitKind>(["clean-exit", "crash", "signal", "out-of-memory", "spawn-failed"]);

const MORE_TIME = "give it more time with --ready-timeout-ms, or start it again and again with --keep-trying";
const KEEP_TRYING = "to start it again and again, use --keep-trying";

/**
 * @param errorCode of the system. ENOENT means that the program, or its interpreter, does not exist.
 * @param isOnLine false if the command is in the environment.
 * @param commands of this program: `command` may be a misspelling of one.
 */
export function commandFailure(command: string, errorCode: string, isOnLine: boolean, commands: readonly string[]): StartFailure {
  const shown = maskCommand(command);
  const failure = (problem: string, fix?: string): StartFailure => ({
    problem: `"${shown}" ${problem}`,
    fix,
    exitCode: errorCode === "ENOENT" ? ExitCode.notFound : ExitCode.notExecutable,
    report: (log, reason) => log.error({ reason, code: errorCode, line: shown }, "the command cannot be started"),
  });
  if (errorCode === "EACCES") {
    const fix = "make the file executable, or start it by its interpreter";
    return failure("may not be executed, or a folder of PATH may not be searched", fix);
  }
  if (errorCode !== "ENOENT") return failure(`cannot be executed (${errorCode})`);
  const missing = "does not exist, or its interpreter does not";
  const meant = isOnLine ? meantCommand(command, commands) : undefined;
  if (meant !== undefined) return failure(missing, `did you mean claw-mcp-stdio ${meant}?`);
  if (command.includes(" ")) {
    const form = isOnLine
      ? "its words without quotes, after --"
      : `the words after the first one as a JSON array in ${OPTIONS.args.variable}`;
    return failure(missing, `no shell splits it into words; write ${form}`);
  }
  return failure(missing, `install it or ${command.includes("/") ? "correct its path" : "give its full path"}`);
}

function meantCommand(command: string, commands: readonly string[]): string | undefined {
  return SYNONYMS.get(command) ?? nearest(command, commands);
}

/** @param command of the command line. Beside a sidecar that runs, a misspelled `healthcheck` finds the port taken. */
export function listenFailure(error: unknown, command: string | undefined, commands: readonly string[]): StartFailure {
  const { code, syscall, port, option } = error as NodeJS.ErrnoException & { readonly port?: number; readonly option?: string };
  const isTaken = code === "EADDRINUSE";
  const meant = isTaken && command !== undefined ? meantCommand(command, commands) : undefined;
  const isAddress = syscall === "listen" || syscall === "getaddrinfo";
  const fix = isTaken
    ? `end the program that listens on port ${port}, or choose another with ${option ?? "--port or --addr"}`
    : `give another with ${option ?? "--host, --port or --addr, or in their variables"}`;
  return {
    problem: describeError(error),
    fix: isAddress ? `${fix}${meant === undefined ? "" : `; or did you mean claw-mcp-stdio ${meant}?`}` : undefined,
    exitCode: ExitCode.failed,
    report: (log, reason) => {
      if (isTaken) log.error({ reason, code }, "the port is taken");
      // System errors are about the address, which `problem` names. Other errors need their stack.
      else log.error({ reason, code, ...(syscall === undefined && { err: error }) }, "cannot start");
    },
  };
}

/** The exit code is that of the server, as a shell reports it. */
export function neverReady({
  kind,
  exitCode,
  signal,
  reason,
  likelyCause,
  stderrTail,
}: Omit<UpstreamExit, "generation" | "at">): StartFailure {
  const isOwnExit = OWN_EXITS.has(kind);
  const ofSignal = signal === undefined ? undefined : 128 + constants.signals[signal as NodeJS.Signals];
  const problem = `the MCP server ${isOwnExit ? "" : "was never ready: "}${reason.replace(/^ended by/, "was ended by")}`;
  const moreTime = kind === "handshake-timeout" ? [MORE_TIME] : [];
  const known = likelyCause === undefined ? moreTime : [`likely cause: ${likelyCause}`];
  const text = [problem, ...known, KEEP_TRYING].join("; ");
  return {
    problem,
    fix: known[0] ?? KEEP_TRYING,
    exitCode: (isOwnExit && (ofSignal ?? exitCode)) || ExitCode.failed,
    report: (log) => log.error({ reason: text }, "mcp server not restarted: it was never ready"),
    output: stderrTail,
  };
}

export function failureText({ problem, fix, output = [] }: StartFailure): string {
  const ending = /[?.'"\])]$/.test(fix ?? "") ? "" : ".";
  const lines = fix === undefined ? output : [...output, `${fix.charAt(0).toUpperCase()}${fix.slice(1)}${ending}`];
  return `claw-mcp-stdio: ${problem}${/[?.]$/.test(problem) ? "" : "."}\n${lines.map((line) => `  ${line}\n`).join("")}`;
}
