import type { Edit } from "../../json/edit.ts";
import { findMembers } from "../../json/find.ts";
import type { Span } from "../../json/strings.ts";
import { type ResponseMessage, Slot } from "../../protocol/message.ts";
import { responseEdits } from "../../protocol/rewrite.ts";

/** A response with a result, and the parts of the result that are checked or changed for a client of the other era. */
export interface FoundResult {
  readonly text: string;
  /** The edits that the text needs for the client in any case. */
  readonly edits: readonly Edit[];
  readonly result: Span;
  readonly resultType: Span | undefined;
  readonly meta: Span | undefined;
  readonly requestState: Span | undefined;
}

/**
 * Finds the result of a response.
 *
 * @param response the server's message, if the body differs from it in the id only. It has been searched already; a result may be long.
 * @returns undefined for an error.
 */
export function findResult(body: string, idText: string, response: ResponseMessage | undefined): FoundResult | undefined {
  if (response === undefined) return searchResult(body);
  const { outline, text } = response;
  const result = outline.span(Slot.result);
  if (result === undefined) return undefined;
  return {
    text,
    edits: responseEdits(response, idText),
    result,
    resultType: outline.span(Slot.resultType),
    meta: outline.span(Slot.resultMeta),
    requestState: outline.span(Slot.requestState),
  };
}

function searchResult(text: string): FoundResult | undefined {
  const [result] = findMembers(text, 0, ["result"]).spans;
  if (result === undefined) return undefined;
  const [resultType, meta, requestState] =
    text[result.start] === "{" ? findMembers(text, result.start, ["resultType", "_meta", "requestState"]).spans : [];
  return { text, edits: [], result, resultType, meta, requestState };
}
