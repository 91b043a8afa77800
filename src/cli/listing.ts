import { findMembers, stringOf, textOf } from "../json/find.ts";
import { shorten } from "../json/text.ts";
import { readCapabilities } from "../mcp/capabilities.ts";
import { type JsonObject, type ResponseMessage, Slot } from "../mcp/message.ts";
import type { ClientInfo } from "../process/handshake.ts";
import type { UpstreamHandshake } from "../process/port.ts";
import { readToolPages, type ToolListRules } from "../server/tools.ts";

/**
 * A list of 4 MiB, the longest that pods read, usually takes less than half of these values. A descriptor must have all tools, so no tool
 * is skipped, and the list must end.
 */
const RULES: ToolListRules = { maxPages: 1000, maxValueBytes: 256 * 1024 * 1024, isStrict: true };
const MAX_ERROR_LENGTH = 500;
const MAX_NAMES_SHOWN = 5;

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

/** The bounds of a listing. The signal's reason is a DiscoverError if `discover` is interrupted; any other reason is a timeout. */
export interface ListingBounds {
  /** Aborted with a DiscoverError as the reason, or by the time limit. */
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  readonly clientInfo: ClientInfo;
}

/** Returns the error of a listing that was aborted. @param method the request that was not answered yet. */
export function endedError({ signal, timeoutMs }: ListingBounds, method: string): DiscoverError {
  const reason: unknown = signal.reason;
  return reason instanceof DiscoverError ? reason : new DiscoverError(`no response to ${method} within ${timeoutMs} ms of the start`);
}

/**
 * Lists the tools of a server after its handshake.
 *
 * @throws DiscoverError if a page is not a list, the list is too long or never ends, or a name is missing or repeated.
 */
export async function listTools(
  { protocolVersion, resultText, requestMeta }: Pick<UpstreamHandshake, "protocolVersion" | "resultText" | "requestMeta">,
  request: (method: string, params: JsonObject) => Promise<ResponseMessage>,
): Promise<Listing> {
  const hasToolsCapability = (readCapabilities(resultText)["tools"] ?? false) !== false;
  if (!hasToolsCapability) return { protocolVersion, hasToolsCapability, tools: [] };
  const pages = readToolPages(RULES);
  let step = pages.next();
  while (step.done !== true) {
    const params = requestMeta === undefined ? step.value : { ...step.value, _meta: requestMeta };
    step = pages.next(resultTextOf(await request("tools/list", params), "tools/list"));
  }
  const { tools, problem } = step.value;
  if (tools === undefined || problem !== undefined) throw new DiscoverError(`tools/list: ${problem}`);
  refuseAmbiguous(tools);
  return { protocolVersion, hasToolsCapability, tools };
}

/** Rejects missing and repeated names, because a descriptor must identify each reviewed tool by its name. */
function refuseAmbiguous(tools: readonly JsonObject[]): void {
  const names = new Set<string>();
  const problems = new Set<string>();
  for (const [index, { name }] of tools.entries()) {
    const trimmed = typeof name === "string" ? name.trim() : "";
    if (trimmed === "") problems.add(`tool ${index + 1} has no name`);
    else if (names.has(trimmed)) problems.add(`${JSON.stringify(shorten(trimmed))} occurs more than once`);
    names.add(trimmed);
  }
  if (problems.size === 0) return;
  const shown = [...problems].slice(0, MAX_NAMES_SHOWN).join(", ");
  throw new DiscoverError(`tools/list: ${shown}${problems.size > MAX_NAMES_SHOWN ? `, and ${problems.size - MAX_NAMES_SHOWN} more` : ""}`);
}

/** Returns the JSON text of a response's result. @throws DiscoverError if the response is an error. */
export function resultTextOf({ outline, isError }: ResponseMessage, method: string): string {
  if (!isError) return outline.textAt(Slot.result) ?? "";
  const error = outline.textAt(Slot.error) ?? "";
  const [code, message] = error.startsWith("{") ? findMembers(error, 0, ["code", "message"]).spans : [];
  const said = stringOf(error, message);
  const reason = said === undefined ? error : `${said} (code ${textOf(error, code)})`;
  throw new DiscoverError(`the server answered ${method} with an error: ${shorten(reason, MAX_ERROR_LENGTH)}`);
}
