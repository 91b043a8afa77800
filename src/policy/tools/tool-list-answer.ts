import { applyEdits, removeItems } from "../../json/edit.ts";
import { findElements, findMembers, type Members } from "../../json/find.ts";
import { findRepeatedName } from "../../json/names.ts";
import type { Span } from "../../json/strings.ts";
import { estimatedBytes, MAX_VALUE_BYTES } from "../../json/value-size.ts";
import { readValue } from "../../json/values.ts";
import { MAX_TOOLS } from "../../lane/tools/tool-pages.ts";
import { isJsonObject, type JsonObject } from "../../protocol/message.ts";

/** A longer tool is hidden if its value needs more than MAX_VALUE_BYTES. The value of a shorter one never does. In UTF-16 units. */
const LONG_TOOL_LENGTH = 512 * 1024;

/** The members of a tool (MCP 2025-11-25, schema, Tool). */
const TOOL_MEMBERS = ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution", "icons", "_meta"];

/**
 * Removes the hidden tools from a response to `tools/list`. Every other byte stays unchanged.
 *
 * A client must not read the list differently. The result is an empty list if `result` or `tools` is ambiguous, or if `tools` is not an
 * array. A member is ambiguous if its name is repeated, or if another name differs from it only in case. A tool is removed if a member of
 * it is ambiguous, or if any object within it has a repeated name.
 *
 * @param body the response in valid JSON. Errors, and results without `tools`, are returned unchanged.
 */
export function filterToolsList(body: string, isVisible: (tool: JsonObject) => boolean): string {
  const envelope = findMembers(body, 0, ["result"]);
  if (isAmbiguous(envelope)) return emptyList(body);
  const [resultSpan] = envelope.spans;
  if (resultSpan === undefined || body.charAt(resultSpan.start) !== "{") return body;
  const members = findMembers(body, resultSpan.start, ["tools"]);
  if (isAmbiguous(members)) return emptyList(body);
  const [listSpan] = members.spans;
  if (listSpan === undefined) return body;
  if (body.charAt(listSpan.start) !== "[") return emptyList(body);
  const spans = findElements(body, listSpan.start, MAX_TOOLS + 1);
  const items = spans.slice(0, MAX_TOOLS).map(({ start, end }) => ({ start, end, isKept: isKept({ start, end }) }));
  // Clients cannot call further tools, because the sidecar does not list them.
  const more = spans[MAX_TOOLS];
  if (more !== undefined) items.push({ start: more.start, end: listSpan.end - 1, isKept: false });
  return applyEdits(body, removeItems(items));

  function isKept(span: Span): boolean {
    if (span.end - span.start > LONG_TOOL_LENGTH && estimatedBytes(body.slice(span.start, span.end)) > MAX_VALUE_BYTES) return false;
    const tool = readValue(body, span);
    if (!isJsonObject(tool) || !isVisible(tool) || isAmbiguous(findMembers(body, span.start, TOOL_MEMBERS))) return false;
    // This includes the schema. A client that takes the first of two members would read one that was not compared.
    return findRepeatedName(body, span.start) === undefined;
  }
}

/** True if another parser may find a different member under one of the names. */
function isAmbiguous({ duplicate, otherCase }: Members): boolean {
  return duplicate !== undefined || otherCase !== undefined;
}

function emptyList(body: string): string {
  const [idSpan] = findMembers(body, 0, ["id"]).spans;
  const idText = idSpan === undefined ? "null" : body.slice(idSpan.start, idSpan.end);
  return `{"jsonrpc":"2.0","id":${idText},"result":{"tools":[]}}`;
}
