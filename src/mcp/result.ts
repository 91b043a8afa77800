import { type Edit, removeMembers } from "../json/edit.ts";
import { findMembers, stringOf } from "../json/find.ts";
import { shorten, type Span } from "../json/text.ts";
import { SidecarError } from "./errors.ts";
import { MetaKey, type ResponseMessage, Slot } from "./message.ts";
import { editsOf } from "./rewrite.ts";

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
  if (response === undefined) {
    const [result] = findMembers(body, 0, ["result"]).spans;
    if (result === undefined) return undefined;
    const [resultType, meta, requestState] =
      body[result.start] === "{" ? findMembers(body, result.start, ["resultType", "_meta", "requestState"]).spans : [];
    return { text: body, edits: [], result, resultType, meta, requestState };
  }
  const { outline, text } = response;
  const result = outline.span(Slot.result);
  if (result === undefined) return undefined;
  return {
    text,
    edits: editsOf(response, idText, Slot.id),
    result,
    resultType: outline.span(Slot.resultType),
    meta: outline.span(Slot.resultMeta),
    requestState: outline.span(Slot.requestState),
  };
}

/**
 * Returns the edits that remove a key of `_meta`, or all of `_meta` if it has no other key.
 *
 * @param object position of the object that has `_meta`.
 * @param meta the value of `_meta`; undefined for none.
 * @param others members of the object to remove besides.
 */
export function removeMetaKey(text: string, object: number, meta: Span | undefined, key: string, others?: ReadonlySet<string>): Edit[] {
  let keptKeys = 0;
  const isRemoved = (name: string): boolean => {
    if (name !== key) keptKeys++;
    return name === key;
  };
  const ofMeta = meta === undefined || text[meta.start] !== "{" ? [] : removeMembers(text, meta.start, isRemoved);
  const isEmpty = ofMeta.length > 0 && keptKeys === 0;
  const ofObject = removeMembers(text, object, (name) => others?.has(name) === true || (isEmpty && name === "_meta"));
  return isEmpty ? ofObject : [...ofObject, ...ofMeta];
}

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

export const SERVER_INFO_NAME = JSON.stringify(MetaKey.serverInfo);

/** The name and version of a server with sessions, which each result gets. */
export interface ServerInfo {
  /** The JSON text of its `serverInfo`; undefined if it has none. */
  readonly text: string | undefined;
  /** The members that a result gets if it has none of them. */
  readonly membersText: string;
}

/** Returns a result that asks the client for input, with these members after its questions. */
export function inputRequired(questions: readonly string[], { text }: ServerInfo, state?: string): string {
  const stateText = state === undefined ? "" : `,"requestState":${JSON.stringify(state)}`;
  const meta = text === undefined ? "" : `,"_meta":{${SERVER_INFO_NAME}:${text}}`;
  return `{"resultType":"input_required","inputRequests":{${questions.join(",")}}${stateText}${meta}}`;
}
