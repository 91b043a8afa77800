import { SidecarError } from "../../errors.ts";
import { stringOf } from "../../json/find.ts";
import { shorten } from "../../json/text.ts";
import type { FoundResult } from "./found-result.ts";

/** The types of results that a client can handle: those of the revision, and that of its extension for tasks. */
const KNOWN_TYPES: ReadonlySet<string> = new Set(["complete", "input_required", "task"]);

/**
 * Checks the type of a server's result. A client must not take a result of another type for a complete one (MCP 2026-07-28, basic,
 * ResultType).
 *
 * @returns the error in place of the response; undefined if its result has a known type or none.
 */
export function checkResultType({ text, resultType: span }: FoundResult): SidecarError | undefined {
  if (span === undefined || KNOWN_TYPES.has(stringOf(text, span) ?? "")) return undefined;
  const message = `The MCP server answered with a result of an unknown type: ${shorten(text.slice(span.start, span.end))}. The request was sent and may have taken effect.`;
  return new SidecarError("UNKNOWN_RESULT_TYPE", message, { sent: true });
}
