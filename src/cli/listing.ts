import { shorten } from "../json/text.ts";
import { readCapabilities } from "../mcp/capabilities.ts";
import type { JsonObject } from "../mcp/message.ts";
import type { ClientInfo } from "../process/handshake.ts";
import type { UpstreamHandshake } from "../process/port.ts";
import { MAX_LIST_BYTES, type ToolList, type ToolListRules } from "../server/tools.ts";

/**
 * A list of 4 MiB, the longest that pods read, usually takes less than half of these values. A descriptor must have all tools, so no tool
 * is skipped, and the list must end.
 */
export const TOOL_LIST_RULES: ToolListRules = {
  maxPages: 1000,
  maxValueBytes: 256 * 1024 * 1024,
  maxPageBytes: MAX_LIST_BYTES,
  isStrict: true,
};

/** A server's list of tools. */
export interface Listing {
  /** The revision that the endpoint negotiates with clients that request the newest. */
  readonly protocolVersion: string;
  /** False if the server does not declare the capability `tools`; `tools/list` is not sent then. */
  readonly hasToolsCapability: boolean;
  readonly tools: readonly JsonObject[];
}

/** A failure of a listing. The message is one line for the operator. */
export class DiscoverError extends Error {
  override readonly name = "DiscoverError";
  /** The last lines of the server's stderr, with secrets masked. */
  readonly stderrTail: readonly string[];

  constructor(message: string, stderrTail: readonly string[] = [], cause?: unknown) {
    super(message, { cause });
    this.stderrTail = stderrTail;
  }
}

/** The bounds of a listing. */
export interface ListingBounds {
  /** Aborted with a DiscoverError as the reason if `discover` is interrupted. */
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  readonly clientInfo: ClientInfo;
}

/** True if the server declares the capability `tools`. */
export function hasTools({ resultText }: Pick<UpstreamHandshake, "resultText">): boolean {
  return (readCapabilities(resultText)["tools"] ?? false) !== false;
}

/**
 * Returns the listing of a server.
 *
 * @param list undefined without the capability `tools`.
 * @throws DiscoverError if the list is not complete, or a name is missing or repeated.
 */
export function listingOf(protocolVersion: string, list: ToolList | undefined): Listing {
  if (list === undefined) return { protocolVersion, hasToolsCapability: false, tools: [] };
  const { tools, problem } = list;
  if (tools === undefined || problem !== undefined) throw new DiscoverError(`tools/list: ${problem}`);
  // A descriptor must identify each reviewed tool by its name.
  const names = new Set([""]);
  for (const [index, tool] of tools.entries()) {
    const name = typeof tool["name"] === "string" ? tool["name"].trim() : "";
    const fault = name === "" ? "no name" : `the name of an earlier one, ${JSON.stringify(shorten(name))}`;
    if (names.has(name)) throw new DiscoverError(`tools/list: tool ${index + 1} has ${fault}`);
    names.add(name);
  }
  return { protocolVersion, hasToolsCapability: true, tools };
}
