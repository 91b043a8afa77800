import { isJsonObject } from "../jsonrpc/message.ts";

/**
 * Whether a tool only reads, by the protocol's own annotation (MCP 2025-11-25, schema, ToolAnnotations) or that of a pod; where they
 * differ, it does not. `destructiveHint` says nothing here: it means something only where `readOnlyHint` is false.
 */
export function isReadOnly(annotations: unknown): boolean {
  if (!isJsonObject(annotations)) return false;
  const marks = new Set([annotations["readOnlyHint"], annotations["readOnly"]]);
  return marks.has(true) && !marks.has(false);
}
