import { findOtherCase, findRepeated, type RequestMessage, Slot } from "../protocol/message.ts";

/** The members of a `tools/call` (MCP 2025-11-25, schema, CallToolRequestParams). */
const MEMBERS = { name: Slot.toolName, arguments: Slot.arguments, task: Slot.callTask } as const;

/** The parameters of a `tools/call`. */
export interface ToolCall {
  /** Undefined if absent or not a string. */
  readonly name: string | undefined;
  /** JSON of any type; undefined if absent. */
  readonly argsText: string | undefined;
}

/** A call that the server may read differently than the sidecar. */
export interface AmbiguousCall {
  /** Describes the problem to the sender. */
  readonly problem: string;
}

/** Reads `params` of a `tools/call`. */
export function readCall({ outline }: RequestMessage): ToolCall | AmbiguousCall {
  const repeated = findRepeated(outline, MEMBERS);
  if (repeated !== undefined) return { problem: `"${repeated}" occurs twice in "params"` };
  const spelled = findOtherCase(outline, MEMBERS);
  if (spelled !== undefined) return { problem: `${JSON.stringify(spelled)} in "params" differs only in case from a name of the protocol` };
  return { name: outline.stringAt(Slot.toolName), argsText: outline.textAt(Slot.arguments) };
}
