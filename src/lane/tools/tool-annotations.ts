import { isJsonObject, type JsonObject } from "../../protocol/message.ts";

/**
 * Returns true if a tool is read-only by the protocol's annotation (MCP 2025-11-25, schema, ToolAnnotations) or that of a pod. Returns
 * false if the two differ. `destructiveHint` is ignored: it has a meaning only if `readOnlyHint` is false.
 */
export function isReadOnly(annotations: unknown): boolean {
  if (!isJsonObject(annotations)) return false;
  const marks = new Set([annotations["readOnlyHint"], annotations["readOnly"]]);
  return marks.has(true) && !marks.has(false);
}

/** Returns the names whose tools all fulfil a condition. If several tools have one name, it is unknown which one a call reaches. */
export function namesOf(tools: readonly JsonObject[], holds: (tool: JsonObject) => boolean): ReadonlySet<string> {
  const names = new Set<string>();
  const others = new Set<string>();
  for (const tool of tools) {
    const { name } = tool;
    if (typeof name === "string") (holds(tool) ? names : others).add(name);
  }
  return names.difference(others);
}
