import { isOtherCase } from "./folded-names.ts";
import { isJsonObject, type JsonObject } from "./message.ts";
import { findMembers, type Span } from "./splice.ts";

/** The members of `params` that a message of a client is rewritten in: ids that the server knows otherwise. */
const REWRITTEN = ["_meta", "requestId", "progressToken"];
const OF_META = ["progressToken"];

/**
 * Looks for an id that would be rewritten in one place and stay in another: for a server that reads the other one, a client could name the
 * requests of somebody else.
 *
 * @returns what is wrong, for the sender; undefined where nothing is.
 */
export function describeAmbiguousId(text: string, paramsSpan: Span, params: JsonObject): string | undefined {
  // Most messages have none of them, and are not looked at twice.
  if (!hasRewritten(params)) return undefined;
  const { spans, duplicate, otherCase } = findMembers(text, paramsSpan.start, REWRITTEN);
  const [metaSpan] = spans;
  const ofMeta = metaSpan !== undefined && isJsonObject(params["_meta"]) ? findMembers(text, metaSpan.start, OF_META) : undefined;
  const repeated = duplicate ?? ofMeta?.duplicate;
  if (repeated !== undefined) return `"${repeated}" occurs twice`;
  const spelled = otherCase ?? ofMeta?.otherCase;
  return spelled === undefined ? undefined : `${JSON.stringify(spelled)} is a name of the protocol in another case`;
}

function hasRewritten(params: JsonObject): boolean {
  for (const key in params) for (const name of REWRITTEN) if (key === name || isOtherCase(key, name)) return true;
  return false;
}
