import { isJsonObject, type JsonObject } from "../../protocol/message.ts";
import { DiscoverError } from "./listing.ts";

/** Far above usual lists. Ends the list of a server that never stops paging. */
const MAX_PAGES = 1000;
const MAX_TOOLS = 10_000;
/** The limit of all pages together, and of one message. */
export const MAX_LIST_BYTES = 64 * 1024 * 1024;

const MAX_NAMES_SHOWN = 5;

/** The response to one `tools/list`. */
export interface ToolsPage {
  readonly result: unknown;
  /** The size of the message. */
  readonly bytes: number;
}

/**
 * Reads all pages of `tools/list` (MCP 2025-11-25, server/utilities/pagination), one after another.
 *
 * @throws DiscoverError if a page is not a list, the list is too long or never ends, or a name is missing or repeated.
 */
export async function readToolPages(requestPage: (params: JsonObject | undefined) => Promise<ToolsPage>): Promise<readonly JsonObject[]> {
  const tools: JsonObject[] = [];
  const cursors = new Set<string>();
  let cursor: string | undefined;
  let bytes = 0;
  for (let page = 1; page <= MAX_PAGES; page++) {
    const answer = await requestPage(cursor === undefined ? undefined : { cursor });
    bytes += answer.bytes;
    if (bytes > MAX_LIST_BYTES) throw new DiscoverError(`tools/list: longer than ${MAX_LIST_BYTES} bytes in all`);
    cursor = readPage(answer.result, page, tools);
    if (tools.length > MAX_TOOLS) throw new DiscoverError(`tools/list: more than ${MAX_TOOLS} tools`);
    if (cursor === undefined) return refuseAmbiguous(tools);
    if (cursors.has(cursor)) throw new DiscoverError(`tools/list: page ${page} repeats an earlier cursor; the list would never end`);
    cursors.add(cursor);
  }
  throw new DiscoverError(`tools/list: more than ${MAX_PAGES} pages`);
}

/** Adds the tools of a page. @returns the cursor of the next page. */
function readPage(result: unknown, page: number, tools: JsonObject[]): string | undefined {
  const listed = isJsonObject(result) ? result["tools"] : undefined;
  if (!isJsonObject(result) || !Array.isArray(listed)) throw new DiscoverError(`tools/list: page ${page} has no list of tools`);
  for (const [index, tool] of (listed as unknown[]).entries()) {
    if (!isJsonObject(tool)) throw new DiscoverError(`tools/list: tool ${index + 1} of page ${page} is not an object`);
    tools.push(tool);
  }
  // Servers in languages without optional members write an empty cursor.
  const cursor = result["nextCursor"] ?? "";
  if (typeof cursor !== "string") throw new DiscoverError(`tools/list: the nextCursor of page ${page} is not a string`);
  return cursor === "" ? undefined : cursor;
}

/** Rejects missing and repeated names, because a descriptor must identify each reviewed tool by its name. */
function refuseAmbiguous(tools: readonly JsonObject[]): readonly JsonObject[] {
  const names = new Set<string>();
  const problems = new Set<string>();
  for (const [index, { name }] of tools.entries()) {
    const trimmed = typeof name === "string" ? name.trim() : "";
    if (trimmed === "") problems.add(`tool ${index + 1} has no name`);
    else if (names.has(trimmed)) problems.add(`${JSON.stringify(trimmed)} occurs more than once`);
    names.add(trimmed);
  }
  if (problems.size === 0) return tools;
  const shown = [...problems].slice(0, MAX_NAMES_SHOWN).join(", ");
  throw new DiscoverError(`tools/list: ${shown}${problems.size > MAX_NAMES_SHOWN ? `, and ${problems.size - MAX_NAMES_SHOWN} more` : ""}`);
}
