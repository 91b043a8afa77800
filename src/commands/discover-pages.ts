import { isJsonObject, type JsonObject } from "../jsonrpc/message.ts";
import { DiscoverError } from "./discover-listing.ts";

/** No honest server comes near; one that pages for ever ends there. */
const MAX_PAGES = 1000;
const MAX_TOOLS = 10_000;
/** Of all pages together, in UTF-16 units or bytes; also of one message. */
export const MAX_LIST_BYTES = 64 * 1024 * 1024;

const MAX_NAMES_SHOWN = 5;

/** What the server answered to one `tools/list`. */
export interface ToolsPage {
  readonly result: unknown;
  /** Of the message that it came in. */
  readonly bytes: number;
}

/**
 * Reads all pages of `tools/list` (MCP 2025-11-25, server/utilities/pagination), one after the other.
 *
 * @throws DiscoverError where it is no list, never ends, or is ambiguous: a tool without a name, or two of one name.
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
    if (cursors.has(cursor))
      throw new DiscoverError(`tools/list: page ${page} names a cursor that was there before; the list would never end`);
    cursors.add(cursor);
  }
  throw new DiscoverError(`tools/list: more than ${MAX_PAGES} pages`);
}

/** Adds the tools of a page. @returns the cursor of the next one. */
function readPage(result: unknown, page: number, tools: JsonObject[]): string | undefined {
  const listed = isJsonObject(result) ? result["tools"] : undefined;
  if (!isJsonObject(result) || !Array.isArray(listed)) throw new DiscoverError(`tools/list: page ${page} has no list of tools`);
  for (const [index, tool] of (listed as unknown[]).entries()) {
    if (!isJsonObject(tool)) throw new DiscoverError(`tools/list: tool ${index + 1} of page ${page} is no object`);
    tools.push(tool);
  }
  // Servers in languages without absent members write an empty one.
  const cursor = result["nextCursor"] ?? "";
  if (typeof cursor !== "string") throw new DiscoverError(`tools/list: the nextCursor of page ${page} is no string`);
  return cursor === "" ? undefined : cursor;
}

/** A descriptor names each tool once: which of two was reviewed, nobody could tell. */
function refuseAmbiguous(tools: readonly JsonObject[]): readonly JsonObject[] {
  const names = new Set<string>();
  const problems = new Set<string>();
  for (const [index, { name }] of tools.entries()) {
    const trimmed = typeof name === "string" ? name.trim() : "";
    if (trimmed === "") problems.add(`tool ${index + 1} has no name`);
    else if (names.has(trimmed)) problems.add(`${JSON.stringify(trimmed)} is there more than once`);
    names.add(trimmed);
  }
  if (problems.size === 0) return tools;
  const shown = [...problems].slice(0, MAX_NAMES_SHOWN).join(", ");
  throw new DiscoverError(`tools/list: ${shown}${problems.size > MAX_NAMES_SHOWN ? `, and ${problems.size - MAX_NAMES_SHOWN} more` : ""}`);
}
