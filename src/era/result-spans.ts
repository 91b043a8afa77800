import { findMembers } from "../json/find.ts";
import type { Span } from "../json/strings.ts";
import { type ResponseMessage, Slot } from "../protocol/message.ts";

/** The parts of a result that are checked or changed for a client without a session. */
export interface ResultSpans {
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
export function findResult(body: string, response: ResponseMessage | undefined): ResultSpans | undefined {
  if (response === undefined) return searchResult(body);
  const { outline, text } = response;
  const shift = outline.start(Slot.id) < outline.start(Slot.result) ? body.length - text.length : 0;
  const spanAt = (slot: number): Span | undefined =>
    outline.has(slot) ? { start: outline.start(slot) + shift, end: outline.end(slot) + shift } : undefined;
  const result = spanAt(Slot.result);
  if (result === undefined) return undefined;
  return {
    result,
    resultType: spanAt(Slot.resultType),
    meta: spanAt(Slot.resultMeta),
    requestState: spanAt(Slot.requestState),
  };
}

function searchResult(body: string): ResultSpans | undefined {
  const [result] = findMembers(body, 0, ["result"]).spans;
  if (result === undefined) return undefined;
  const [resultType, meta, requestState] =
    body[result.start] === "{" ? findMembers(body, result.start, ["resultType", "_meta", "requestState"]).spans : [];
  return { result, resultType, meta, requestState };
}
