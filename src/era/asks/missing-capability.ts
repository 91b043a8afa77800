import { SidecarError } from "../../errors.ts";
import { findElements, findMembers, findPath } from "../../json/find.ts";
import { shorten } from "../../json/text.ts";
import { readValue } from "../../json/values.ts";
import { type AskKinds, capabilitiesFor } from "./ask-kinds.ts";

const MAX_TEXT_LENGTH = 300;

/**
 * Returns the error in place of a response, if the server has failed after it was refused a question (MCP 2026-07-28, basic,
 * MissingRequiredClientCapability). A server that does without the answer has a result.
 *
 * @param missing the kinds of the questions that were refused because the client has not declared them. @returns undefined for a result.
 */
export function missingCapability(body: string, missing: AskKinds): SidecarError | undefined {
  const reason = missing === 0 ? undefined : failureText(body);
  if (reason === undefined) return undefined;
  const requiredCapabilities = capabilitiesFor(missing);
  const names = Object.keys(requiredCapabilities).join(", ");
  const message = `The MCP server asked a question that this client has not declared (${names}), and then failed: ${reason}. The call was sent and may have taken effect.`;
  return new SidecarError("MISSING_CAPABILITY", message, { sent: true, requiredCapabilities });
}

/** Returns the text of a JSON-RPC error, or of a result with `isError`; undefined for any other response. */
function failureText(body: string): string | undefined {
  const [error, result] = findMembers(body, 0, ["error", "result"]).spans;
  const isError = result === undefined ? undefined : findPath(body, result.start, ["isError"]);
  if (error === undefined && (isError === undefined || readValue(body, isError) !== true)) return undefined;
  const content = result === undefined ? undefined : findPath(body, result.start, ["content"]);
  const first = content === undefined || body[content.start] !== "[" ? undefined : findElements(body, content.start, 1)[0];
  const span = error === undefined ? first && findPath(body, first.start, ["text"]) : findPath(body, error.start, ["message"]);
  const text = span === undefined ? undefined : readValue(body, span);
  return typeof text === "string" ? shorten(text, MAX_TEXT_LENGTH) : "no reason given";
}
