import { findOtherCase, findRepeated, type RequestMessage, Slot } from "../jsonrpc/message.ts";

/** The members of a `tools/call` (MCP 2025-11-25, schema, CallToolRequestParams). */
const MEMBERS = { name: Slot.toolName, arguments: Slot.arguments, task: Slot.callTask } as const;

/** What a `tools/call` calls, as it was sent. */
export interface ToolCall {
  /** Undefined for a call without a name, or with one that is not a string. */
  readonly name: string | undefined;
  /** JSON of any type; undefined for a call without arguments. */
  readonly argsText: string | undefined;
}

/** The server may read another call than the one that is looked at here. */
export interface AmbiguousCall {
  /** Says why, ready to be shown to the sender. */
  readonly problem: string;
}

/** Reads `params` of a `tools/call`. */
export function readCall({ outline }: RequestMessage): ToolCall | AmbiguousCall {
  const repeated = findRepeated(outline, MEMBERS);
  if (repeated !== undefined) return { problem: `"${repeated}" occurs twice in "params"` };
  const spelled = findOtherCase(outline, MEMBERS);
  if (spelled !== undefined) return { problem: `${JSON.stringify(spelled)} in "params" differs only by case from a name of the protocol` };
  return { name: outline.stringAt(Slot.toolName), argsText: outline.textAt(Slot.arguments) };
}
