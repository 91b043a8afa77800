// Constants and messages that the harness, its observer and its MCP server share.

import { join } from "node:path";

/** The limits that the attacks go up to: the defaults of the sidecar. */
export const MAX_BODY_BYTES = 4 * 1024 * 1024;
/** A little below MAX_LINE_BYTES. */
export const LONG_LINE_BYTES = 60 * 1024 * 1024;

/** Begins every text of the bystander: nothing else may ever receive one. */
export const BYSTANDER_MARK = "bystander-7f3a";
/** In the answer of a tool that a policy of the sidecar should have kept from being called. */
export const FORBIDDEN_MARK = "forbidden-tool-ran";

/** The first argument of the server: which tools it lists. */
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
  | "poisoned-schema";

/** While this file exists in the directory of the attack, a server that starts answers `initialize` as the text in it says. */
export const INITIALIZE_SWITCH = "initialize";

/** The sidecar that the observer watches. */
export interface Watched {
  readonly url: string;
  readonly origin: string;
  readonly token: string;
  readonly pid: number;
  /** For the ids and texts of the bystander. */
  readonly seed: number;
}

export type Order =
  | { readonly kind: "watch"; readonly watched: Watched }
  /** Report, once a call that was sent after this order is answered. */
  | { readonly kind: "report" };

export type Message = { readonly kind: "watching" } | { readonly kind: "report"; readonly report: Observation };

export interface Observation {
  /** The longest time that an answer of /livez took, without the time that was not the sidecar's fault. */
  readonly gapMs: number;
  /** The same question by the clock alone. */
  readonly clockGapMs: number;
  readonly questions: number;
  /** Questions that never got an answer: the connection was cut, or the time was up. */
  readonly unanswered: number;
  readonly peakRssBytes: number;
  readonly calls: CallCounts;
  /** The bystander was answered rightly once the attack was over. */
  readonly isServedAfterwards: boolean;
}

export interface CallCounts {
  readonly ok: number;
  /** Errors by their stable code. */
  readonly refused: Readonly<Record<string, number>>;
  readonly lost: number;
  readonly crossed: number;
  /** The first few of what must not be. */
  readonly examples: readonly string[];
}

export const SERVER_FILE = join(import.meta.dirname, "server", "main.ts");
