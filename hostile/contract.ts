// Constants and messages that the harness, its observer and its MCP server share.

import { join } from "node:path";

/** The sidecar's default limit for request bodies, which attacks reach. */
export const MAX_BODY_BYTES = 4 * 1024 * 1024;
/** A little below MAX_LINE_BYTES. */
export const LONG_LINE_BYTES = 60 * 1024 * 1024;

/** The beginning of all texts of the bystander. No other client may receive one. */
export const BYSTANDER_MARK = "bystander-7f3a";
/** A part of the result of a tool that the sidecar's policy must not let be called. */
export const FORBIDDEN_MARK = "forbidden-tool-ran";

/** The first argument of the server, which selects the tools that it lists. */
export type ToolList =
  | "plain"
  | "many-tools"
  | "large-tool"
  | "deep-schema"
  | "wide-schema"
  | "enum-schema"
  | "unique-schema"
  | "pattern-schema"
  | "reference-schema"
  | "one-of-schema"
  | "pattern-properties-schema"
  | "poisoned-schema"
  | "header-tools";

/** The second argument of the server: one with sessions only, one that also serves MCP 2026-07-28, or one that serves just that. */
export type ServerEra = "legacy" | "dual" | "modern";

/** While this file exists in the attack's directory, servers answer `initialize` with an error. Its content is the depth of the data. */
export const INITIALIZE_SWITCH = "initialize";
/** While this file exists, servers answer `tools/list` late. Its content is the delay in milliseconds; "never" for no answer. */
export const SLOW_LIST_SWITCH = "slow-list";

/** While this file exists, servers treat subscriptions as its content says: a kind of LISTEN_TRICKS. */
export const LISTEN_SWITCH = "listen";
export const LISTEN_TRICKS = [
  "silent",
  "refused",
  "ended",
  "cancelled",
  "acknowledged-twice",
  "accepts-nothing",
  "invalid",
  "asks",
] as const;
export type ListenTrick = (typeof LISTEN_TRICKS)[number];
/** A part of an answer that the server must get from its owner only. It replies with FORBIDDEN_MARK. */
export const STOLEN_MARK = "stolen-answer";

/** The sidecar that the observer watches. */
export interface Watched {
  readonly url: string;
  readonly origin: string;
  readonly token: string;
  readonly pid: number;
  /** True if the bystander has no session (MCP 2026-07-28). */
  readonly isStateless: boolean;
  /** A part of the bystander's texts. */
  readonly seed: number;
}

export type Order =
  | { readonly kind: "watch"; readonly watched: Watched }
  /** An order to report, after a call sent after this order is answered. */
  | { readonly kind: "report" };

export type Message = { readonly kind: "watching" } | { readonly kind: "report"; readonly report: Observation };

export interface Observation {
  /** The longest response time of /livez, without delays that the sidecar did not cause. */
  readonly gapMs: number;
  /** The longest response time of /livez by the clock. */
  readonly clockGapMs: number;
  readonly requests: number;
  /** Requests to /livez without a response: the connection was closed, or they timed out. */
  readonly unanswered: number;
  readonly peakRssBytes: number;
  readonly calls: CallCounts;
  /** True if the bystander got a right response after the attack. */
  readonly isServedAfterwards: boolean;
}

export interface CallCounts {
  readonly ok: number;
  /** Numbers of errors by their stable code. */
  readonly refused: Readonly<Record<string, number>>;
  readonly lost: number;
  readonly crossed: number;
  /** Details of the first lost and crossed calls. */
  readonly examples: readonly string[];
}

export const SERVER_FILE = join(import.meta.dirname, "server", "main.ts");
