import { applyEdits, removeMember } from "../../json/edit.ts";
import { findElements, findPath } from "../../json/find.ts";
import { MAX_TOOLS } from "../../lane/tools/tool-pages.ts";

/**
 * Removes every `outputSchema` from a response to `tools/list`. Clients reject a result without structuredContent if its tool has an output
 * schema (MCP 2025-11-25, server/tools). A result limit may remove structuredContent, so the schema must not promise it.
 *
 * @param body the response in valid JSON.
 */
export function withoutOutputSchemas(body: string): string {
  const list = findPath(body, 0, ["result", "tools"]);
  if (list === undefined || body.charAt(list.start) !== "[") return body;
  const elements = findElements(body, list.start, MAX_TOOLS + 1);
  const tools = elements.slice(0, MAX_TOOLS).filter(({ start }) => body.charAt(start) === "{");
  const edits = tools.flatMap(({ start }) => removeMember(body, start, "outputSchema"));
  // Clients cannot call further tools, because the sidecar does not list them.
  const [last, more] = elements.slice(MAX_TOOLS - 1);
  if (last !== undefined && more !== undefined) edits.push({ start: last.end, end: list.end - 1, text: "" });
  return applyEdits(body, edits);
}
