import type { ClientMessage } from "../jsonrpc/client-message.ts";
import { findMembers } from "../jsonrpc/splice.ts";

/** Those of `tools/call` (MCP 2025-11-25, schema, CallToolRequestParams). */
const MEMBERS = ["name", "arguments", "task"];

/** What a `tools/call` calls, as it was sent: any JSON value, undefined where there is none. */
export interface ToolCall {
  readonly name: unknown;
  readonly args: unknown;
  /** Where their text begins, in the text of the call. */
  readonly argsStart: number | undefined;
}

/** The server may read another call than the one that is looked at here. */
export interface AmbiguousCall {
  /** Says why, ready to be shown to the sender. */
  readonly problem: string;
}

/** Reads `params` of a `tools/call`. @returns no name and no arguments where it has no `params`, or none that are an object. */
export function readCall({ message, text, paramsSpan }: ClientMessage): ToolCall | AmbiguousCall {
  const params = message.kind === "request" ? message.params : undefined;
  if (params === undefined || paramsSpan === undefined) return { name: undefined, args: undefined, argsStart: undefined };
  const { spans, duplicate, otherCase } = findMembers(text, paramsSpan.start, MEMBERS);
  if (duplicate !== undefined) return { problem: `"${duplicate}" occurs twice in "params"` };
  if (otherCase !== undefined)
    return { problem: `${JSON.stringify(otherCase)} in "params" differs only by case from a name of the protocol` };
  return { name: params["name"], args: params["arguments"], argsStart: spans[MEMBERS.indexOf("arguments")]?.start };
}
