import { isJsonObject } from "../../protocol/message.ts";

/**
 * Returns true if a tool is read-only by the protocol's annotation (MCP 2025-11-25, schema, ToolAnnotations) or that of a pod. Returns
 * false if the two differ. `destructiveHint` is ignored: it has a meaning only if `readOnlyHint` is false.
 */
export function isReadOnly(annotations: unknown): boolean {
  if (!isJsonObject(annotations)) return false;
  const marks = new Set([annotations["readOnlyHint"], annotations["readOnly"]]);
  return marks.has(true) && !marks.has(false);
}
