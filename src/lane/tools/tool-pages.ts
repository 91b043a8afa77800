import { findElements, findMembers } from "../../json/find.ts";
import { estimatedBytes } from "../../json/value-size.ts";
import { readValue } from "../../json/values.ts";
import { isJsonObject, type JsonObject } from "../../protocol/message.ts";

/** The most tools that are listed of a server. */
export const MAX_TOOLS = 10_000;
/** The limit for the texts of all pages together. `discover` applies it to each message as well. */
export const MAX_LIST_BYTES = 64 * 1024 * 1024;

export interface ToolListRules {
  /** A server may return pages without end. */
  readonly maxPages: number;
  /** The limit for the values of all pages together, in estimated bytes of memory. */
  readonly maxValueBytes: number;
  /**
   * True to reject elements that are not objects, cursors that are not strings, and repeated cursors. Otherwise such elements are skipped,
   * such a cursor ends the list, and a repeated one is followed.
   */
  readonly isStrict: boolean;
}

export interface ToolList {
  /** In the server's order. Undefined if the pages are not a list of tools, or too large. */
  readonly tools: readonly JsonObject[] | undefined;
  /** The reason, on one line, why the list is undefined or lacks the rest of the server's tools. */
  readonly problem: string | undefined;
}

/**
 * Reads all pages of `tools/list` (MCP 2025-11-25, server/utilities/pagination). Yields the parameters of the request for each page, and
 * takes the JSON text of its result.
 */
export function* readToolPages({ maxPages, maxValueBytes, isStrict }: ToolListRules): Generator<JsonObject, ToolList, string> {
  const tools: JsonObject[] = [];
  const cursors = new Set<string>();
  let params = {};
  let textBytes = 0;
  let valueBytes = 0;
  for (let page = 1; page <= maxPages; page++) {
    const resultText = yield params;
    textBytes += Buffer.byteLength(resultText);
    if (textBytes > MAX_LIST_BYTES) return noList(`longer than ${MAX_LIST_BYTES} bytes in all`);
    // A character may take two bytes.
    valueBytes += estimatedBytes(resultText, maxValueBytes) + 2 * resultText.length;
    if (valueBytes > maxValueBytes) return noList(`too many values: they could take more than ${maxValueBytes} bytes of memory`);
    const [list, next] = resultText.startsWith("{") ? findMembers(resultText, 0, ["tools", "nextCursor"]).spans : [];
    if (list === undefined || resultText.charAt(list.start) !== "[") return noList(`page ${page} has no list of tools`);
    for (const [index, span] of findElements(resultText, list.start, MAX_TOOLS + 1).entries()) {
      const tool = readValue(resultText, span);
      if (isJsonObject(tool)) tools.push(tool);
      else if (isStrict) return noList(`tool ${index + 1} of page ${page} is not an object`);
    }
    if (tools.length > MAX_TOOLS) return { tools: tools.slice(0, MAX_TOOLS), problem: `more than ${MAX_TOOLS} tools` };
    // Some servers write an empty cursor for the last page, and would return the first page for it.
    const cursor = (next === undefined ? undefined : readValue(resultText, next)) ?? "";
    if (cursor === "") return { tools, problem: undefined };
    if (typeof cursor !== "string")
      return isStrict ? noList(`the nextCursor of page ${page} is not a string`) : { tools, problem: undefined };
    if (isStrict && cursors.has(cursor)) return noList(`page ${page} repeats an earlier cursor; the list would never end`);
    cursors.add(cursor);
    params = { cursor };
  }
  return { tools, problem: `more than ${maxPages} pages` };
}

function noList(problem: string): ToolList {
  return { tools: undefined, problem };
}
