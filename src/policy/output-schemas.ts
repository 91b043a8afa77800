import { applyEdits, removeMember } from "../json/edit.ts";
import { findElements, findPath } from "../json/find.ts";

/** As many as are listed of a server. */
const MAX_TOOLS = 10_000;

/**
 * The response to `tools/list` without any `outputSchema`. A tool that has one must give structuredContent, and clients refuse a result
 * without it (MCP 2025-11-25, server/tools): what may have to be dropped must not be promised.
 *
 * @param body valid JSON: the response as the client would get it.
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
