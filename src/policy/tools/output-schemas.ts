import { applyEdits, removeMember } from "../../json/edit.ts";
import { findElements, findPath } from "../../json/find.ts";

/** The most tools that the sidecar lists of a server. */
const MAX_TOOLS = 10_000;

/**
 * Removes every `outputSchema` from a response to `tools/list`. Clients reject a result without structuredContent if its tool has an output
 * schema (MCP 2025-11-25, server/tools). A result limit may remove structuredContent, so the schema must not promise it.
 *
 * @param body the response in valid JSON.
 */
export function withoutOutputSchemas(body: string): string {
  const list = findPath(body, 0, ["result", "tools"]);
  if (list === undefined || body.charAt(list.start) !== "[") return body;
  const tools = findElements(body, list.start, MAX_TOOLS).filter(({ start }) => body.charAt(start) === "{");
  return applyEdits(
    body,
    tools.flatMap(({ start }) => removeMember(body, start, "outputSchema")),
  );
}
