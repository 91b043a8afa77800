import type { Config } from "../config/load.ts";
import { applyEdits, removeItems, removeMember } from "../json/edit.ts";
import { findElements, findMembers, findPath, textOf } from "../json/read.ts";
import { findRepeatedName, type Span } from "../json/text.ts";
import { estimatedBytes, MAX_VALUE_BYTES, readValue } from "../json/value.ts";
import { isJsonObject, type JsonObject } from "../mcp/message.ts";
import { isReadOnly, MAX_TOOLS } from "../server/tools.ts";

/**
 * `*` matches any characters or none, `?` one code point. Clients choose the names and must not choose the cost, so regular expressions are
 * not used. The cost is at most the product of both lengths.
 *
 * @param wanted the code points of the pattern.
 * @param name those of the name.
 */
export function matchesPattern(wanted: readonly string[], name: readonly string[]): boolean {
  let position = 0;
  let index = 0;
  /** After the last star; -1 before the first. */
  let afterStar = -1;
  /** The end of what this star matches. */
  let starEnd = 0;
  while (index < name.length) {
    if (wanted[position] === "*") {
      afterStar = ++position;
      starEnd = index;
    } else if (wanted[position] === "?" || wanted[position] === name[index]) {
      position++;
      index++;
    } else {
      if (afterStar === -1) return false;
      // Earlier stars never need to change.
      position = afterStar;
      index = ++starEnd;
    }
  }
  return wanted.slice(position).every((character) => character === "*");
}

export type ToolFilter = (tool: JsonObject) => boolean;

/** @param isPinned true if a tool equals the reviewed one. @returns undefined if no tool is hidden. */
export function createToolFilter({ allowTools, denyTools, readOnly }: Config, isPinned?: ToolFilter): ToolFilter | undefined {
  if (allowTools === undefined && denyTools === undefined && !readOnly && isPinned === undefined) return undefined;
  // Hundreds of patterns are compared with thousands of tools.
  const allowed = allowTools?.map((pattern) => Array.from(pattern));
  const denied = denyTools?.map((pattern) => Array.from(pattern));
  return (tool) => {
    const { name, annotations } = tool;
    if (typeof name !== "string") return false;
    const characters = Array.from(name);
    const isMatch = (pattern: readonly string[]): boolean => matchesPattern(pattern, characters);
    if (allowed?.some(isMatch) === false || denied?.some(isMatch) === true) return false;
    return (!readOnly || isReadOnly(annotations)) && isPinned?.(tool) !== false;
  };
}

/** Clients reject a result without structuredContent if its tool has an output schema (MCP 2025-11-25, server/tools), and a result limit may remove it. */
export function withoutOutputSchemas(body: string): string {
  const list = findPath(body, 0, ["result", "tools"]);
  if (list === undefined || body.charAt(list.start) !== "[") return body;
  const edits = findElements(body, list.start, MAX_TOOLS).flatMap(({ start }) => removeMember(body, start, "outputSchema"));
  return applyEdits(body, edits);
}

/** A longer tool is hidden if its value could need more than MAX_VALUE_BYTES. In UTF-16 units. */
const LONG_TOOL_LENGTH = 512 * 1024;

/** MCP 2025-11-25, schema, Tool. */
const TOOL_MEMBERS = ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution", "icons", "_meta"];

/**
 * Removes hidden tools. Every other byte stays, and no client must read the list differently. So the list is empty if `result` or `tools`
 * is ambiguous: a repeated name, or one that differs only in case. A tool with an ambiguous member, or a repeated name in any object, is
 * removed.
 */
export function filterToolsList(body: string, isVisible: (tool: JsonObject) => boolean): string {
  const envelope = findMembers(body, 0, ["result"]);
  if (envelope.double !== undefined) return emptyList(body);
  const [resultSpan] = envelope.spans;
  if (resultSpan === undefined || body.charAt(resultSpan.start) !== "{") return body;
  const members = findMembers(body, resultSpan.start, ["tools"]);
  if (members.double !== undefined) return emptyList(body);
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
    if (!isJsonObject(tool) || !isVisible(tool) || findMembers(body, span.start, TOOL_MEMBERS).double !== undefined) return false;
    // This includes the schema. A client that takes the first of two members would read one that was not compared.
    return findRepeatedName(body, span.start) === undefined;
  }
}

function emptyList(body: string): string {
  const idText = textOf(body, findPath(body, 0, ["id"])) ?? "null";
  return `{"jsonrpc":"2.0","id":${idText},"result":{"tools":[]}}`;
}
