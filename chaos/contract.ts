// What the driver and its MCP server have to agree on.

import { createHash } from "node:crypto";

/** Environment of the server: the directory in which its processes leave their records, and find the switch of the crash loop. */
export const DIRECTORY_VARIABLE = "CHAOS_DIR";

/** While this file exists, a server that starts ends at once; the text in it says how. */
export const CRASH_LOOP_FILE = "crash-loop";
/** One line for every fault that a server has committed: the fault, the pid, and when, in milliseconds since 1970. */
export const FAULT_LOG_FILE = "faults.log";
export const CRASH_LOOP_FAULT = "crash_loop";
export type CrashLoopKind = "crash-at-start" | "clean-exit-at-start" | "crash-at-initialize";

export const SERVER_NAME = "chaos";

/** The arguments of every tool. */
export interface ToolArguments {
  readonly client: string;
  readonly nonce: string;
  readonly text: string;
  /** Before the answer. */
  readonly delayMs: number;
}

/** The text of every tool's result, as JSON. */
export interface ToolAnswer {
  readonly client: string;
  readonly nonce: string;
  readonly text: string;
  readonly digest: string;
  /** The process that answered. */
  readonly pid: number;
}

/** Proves that an answer was made from exactly these arguments. */
export function digestOf({ client, nonce, text }: Pick<ToolArguments, "client" | "nonce" | "text">): string {
  return createHash("sha256")
    .update(JSON.stringify([client, nonce, text]))
    .digest("base64url");
}

/** One file a process, named by its pid, so that the driver can find, signal and count them. */
export interface ProcessRecord {
  readonly pid: number;
  /** Of /proc/PID/stat: with the pid it names a process for ever, though pids are used again. */
  readonly startTime: string;
  readonly kind: "server" | "grandchild";
}

/** What a server does wrong when this tool is called. All of them answer like `echo`, unless it says otherwise. */
export const TOOL_FAULTS = {
  exit_cleanly: "ends with code 0 without an answer",
  crash: "ends with code 7 without an answer",
  kill_itself: "ends itself by SIGKILL",
  last_words: "answers, and crashes in the same moment",
  garbage: "writes what is no JSON, and JSON that is no JSON-RPC",
  half_line: "writes half of its answer, and the rest later",
  half_line_and_crash: "writes half of its answer and crashes",
  long_answer: "answers with a line of 64 MB",
  long_noise: "writes a line of 64 MB that is no JSON",
  split_utf8: "writes its answer in two parts, cut within a character",
  stderr_flood: "writes 8 MB to stderr",
  colliding_request: "asks the client something, under the id of the request that is pending",
  answer_twice: "answers twice, the second time something else",
  answer_unknown: "answers requests that nobody sent",
  late_answer: "answers when the time for it is over",
  hang: "never answers",
  notification_flood: "sends 5000 notifications",
  grandchild: "starts a process of its own that outlives it",
} as const;

export type ToolFault = keyof typeof TOOL_FAULTS;

export const LONG_LINE_BYTES = 64 * 1024 * 1024;
