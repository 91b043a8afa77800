import { createHash } from "node:crypto";

/** The environment variable that names the directory. Server processes write their records there, and look there for CRASH_LOOP_FILE. */
export const DIRECTORY_VARIABLE = "CHAOS_DIR";

/** Servers write down each call before they execute it, each in a file of its own. */
export const CALLS_FILE_END = ".calls";

/** The environment variable with the protocol era of the server. */
export const ERA_VARIABLE = "CHAOS_SERVER_ERA";
/** "legacy": sessions only. "modern": MCP 2026-07-28 only. "dual": the first message of each process decides. */
export const FIXED_ERAS = ["legacy", "dual", "modern"] as const;
export type FixedEra = (typeof FIXED_ERAS)[number];
/** "changing": each process has the era in ERA_FILE at its start, or `legacy` without that file. */
export const SERVER_ERAS = [...FIXED_ERAS, "changing"] as const;
export type ServerEraOption = (typeof SERVER_ERAS)[number];
export const ERA_FILE = "era";

/** While this file exists, each server exits at its start or at `initialize`. The file has the kind of the exit. */
export const CRASH_LOOP_FILE = "crash-loop";
/** Has one line for each fault that a server has committed: the fault, the pid, and the time in milliseconds since 1970. */
export const FAULT_LOG_FILE = "faults.log";
export const CRASH_LOOP_FAULT = "crash_loop";
export type CrashLoopKind = "crash-at-start" | "clean-exit-at-start" | "crash-at-initialize";

export const SERVER_NAME = "chaos";

/** Returns the URI of the resource that only this client subscribes to. */
export function resourceOf(client: string): string {
  return `chaos://${client}`;
}

export interface ToolArguments {
  readonly client: string;
  readonly nonce: string;
  readonly text: string;
  readonly delayMs: number;
}

/** The text of every tool's result, as JSON. */
export interface ToolAnswer {
  readonly client: string;
  readonly nonce: string;
  readonly text: string;
  readonly digest: string;
  readonly pid: number;
}

/** Returns a digest which proves that a response was made from exactly these arguments. */
export function digestOf({ client, nonce, text }: Pick<ToolArguments, "client" | "nonce" | "text">): string {
  return createHash("sha256")
    .update(JSON.stringify([client, nonce, text]))
    .digest("base64url");
}

/** The content of the file that each process writes, named by its pid. The driver finds and signals the processes by these files. */
export interface ProcessRecord {
  readonly pid: number;
  /** The start time in /proc/PID/stat. Together with the pid it identifies a process, even if the pid is reused. */
  readonly startTime: string;
  readonly kind: "server" | "grandchild";
}

/** The tool that asks its client, then responds like `echo`. */
export const ASK_TOOL = "ask";
/** The key of its question, for a server without sessions. */
export const ASKED_KEY = "question";

/** Returns the message of the question of a call, which its client recognizes. */
export function questionOf({ client, nonce }: Pick<ToolArguments, "client" | "nonce">): string {
  return `${questionStart(client)}${nonce}?`;
}

export function questionStart(client: string): string {
  return `${client}/`;
}

/** The client's answer. It repeats the question. */
export interface AskAnswer {
  readonly action: "accept";
  readonly content: { readonly question: string };
}

export function isAskAnswer(value: unknown): value is AskAnswer {
  return (value as Partial<AskAnswer> | undefined)?.content?.question !== undefined;
}

/** The faults of a server, by the tool that causes each. All these tools respond like `echo`, unless their description differs. */
export const TOOL_FAULTS = {
  exit_cleanly: "exits with code 0 without a response",
  crash: "exits with code 7 without a response",
  last_words: "responds and crashes at once",
  garbage: "writes invalid JSON, and JSON that is not JSON-RPC",
  half_line_and_crash: "writes half of its response and crashes",
  long_answer: "responds with a line of 64 MB",
  long_noise: "writes a line of 64 MB that is not JSON",
  split_utf8: "writes its response in two parts, split within a character",
  stderr_flood: "writes 8 MB to stderr",
  colliding_request: "sends a request with the id of the pending request",
  answer_twice: "responds twice, the second time with another result",
  answer_unknown: "responds to requests that were never sent",
  late_answer: "responds after the time limit",
  hang: "never responds",
  notification_flood: "sends 5000 notifications",
  grandchild: "starts a child process that outlives it",
} as const;

export type ToolFault = keyof typeof TOOL_FAULTS;

export const LONG_LINE_BYTES = 64 * 1024 * 1024;
