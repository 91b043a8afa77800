// Constants that the attacks, the observer and the MCP server share.

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
  | "one-of-schema"
  | "pattern-properties-schema"
  | "poisoned-schema"
  | "header-tools";

/** The second argument of the server: one with sessions only, one that also serves MCP 2026-07-28, or one that serves just that. */
export type ServerEra = "legacy" | "dual" | "modern";

/** While this file exists in the attack's directory, servers answer `tools/list` late: after these milliseconds, or "never". */
export const SLOW_LIST_SWITCH = "slow-list";
