import { applyEdits, removeItems } from "../json/edit.ts";
import { findElements, findMembers, type Members } from "../json/find.ts";
import { findRepeatedName } from "../json/repeated-names.ts";
import type { Span } from "../json/strings.ts";
import { estimatedBytes, MAX_VALUE_BYTES } from "../json/value-size.ts";
import { readValue } from "../json/values.ts";
import { isJsonObject, type JsonObject } from "../jsonrpc/message.ts";

/** No shorter tool has more than MAX_VALUE_BYTES to build: one that has is left out, as if it were hidden. */
const LONG_TOOL_LENGTH = 512 * 1024;

/** As many as the sidecar itself lists. */
const MAX_TOOLS = 10_000;

/** The members of a tool (MCP 2025-11-25, schema, Tool). */
const TOOL_MEMBERS = ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution", "icons", "_meta"];

/**
 * The response to `tools/list` without the tools that are not visible; every other byte stays as it was.
 *
 * What a client may read otherwise than it was read here never gets through: where `result` or `tools` is repeated, or there is one that
 * has the name but for case, or `tools` is no array, the list is answered as an empty one; a tool of which that is true is left out, and one
 * that has anything repeated within its members.
 *
 * @param body valid JSON: the response as the client would get it. Errors, and results that list nothing, are returned as they are.
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
  // The sidecar does not list more either, so clients cannot call them.
  const more = spans[MAX_TOOLS];
  if (more !== undefined) items.push({ start: more.start, end: listSpan.end - 1, isKept: false });
  return applyEdits(body, removeItems(items));

  function isKept(span: Span): boolean {
    if (span.end - span.start > LONG_TOOL_LENGTH && estimatedBytes(body.slice(span.start, span.end)) > MAX_VALUE_BYTES) return false;
    const tool = readValue(body, span);
    if (!isJsonObject(tool) || !isVisible(tool) || isAmbiguous(findMembers(body, span.start, TOOL_MEMBERS))) return false;
    // Also within its schema: who hands the text on, or takes the first of two, reads what nobody has compared.
    return findRepeatedName(body, span.start) === undefined;
  }
}

/** Another reader may find something else under one of the names. */
function isAmbiguous({ duplicate, otherCase }: Members): boolean {
  return duplicate !== undefined || otherCase !== undefined;
}

function emptyList(body: string): string {
  const [idSpan] = findMembers(body, 0, ["id"]).spans;
  const idText = idSpan === undefined ? "null" : body.slice(idSpan.start, idSpan.end);
  return `{"jsonrpc":"2.0","id":${idText},"result":{"tools":[]}}`;
}
