import type { ClientMessage } from "./client-message.ts";
import { isJsonObject } from "./message.ts";
import { applyEdits, copyOf, type Edit, findMembers, findPath, type Span } from "./splice.ts";

/** The request as the server shall read it: its id, and its progress token where it has one, replaced by `wireId`. */
export function rewriteRequest(request: ClientMessage, wireId: number): string {
  const { message, text, idSpan, paramsSpan } = request;
  const edits: Edit[] = [];
  if (idSpan !== undefined) edits.push({ span: idSpan, text: String(wireId) });
  if (message.kind === "request" && paramsSpan !== undefined) {
    const meta = message.params?.["_meta"];
    if (isJsonObject(meta) && "progressToken" in meta) {
      const span = findPath(text, paramsSpan.start, ["_meta", "progressToken"]);
      if (span !== undefined) edits.push({ span, text: String(wireId) });
    }
  }
  return toOneLine(applyEdits(text, edits));
}

/** The progress token of a request as it is spelled there, where it has one. */
export function progressTokenText({ message, text, paramsSpan }: ClientMessage): string | undefined {
  if (message.kind !== "request" || paramsSpan === undefined) return undefined;
  const meta = message.params?.["_meta"];
  if (!isJsonObject(meta) || !("progressToken" in meta)) return undefined;
  const span = findPath(text, paramsSpan.start, ["_meta", "progressToken"]);
  return span === undefined ? undefined : copyOf(text, span);
}

/** The id in a client's `notifications/cancelled`, as it is spelled there. */
export function cancelledIdText(notification: ClientMessage): string | undefined {
  const span = requestIdSpan(notification);
  return span === undefined ? undefined : notification.text.slice(span.start, span.end);
}

/** A client's `notifications/cancelled` with the id that the server knows the request by. */
export function rewriteCancellation(notification: ClientMessage, wireId: number): string {
  const span = requestIdSpan(notification);
  return toOneLine(span === undefined ? notification.text : applyEdits(notification.text, [{ span, text: String(wireId) }]));
}

/** A `notifications/progress` with the token that its reader chose. */
export function rewriteProgressToken({ text, paramsSpan }: ClientMessage, tokenText: string): string {
  const span = paramsSpan === undefined ? undefined : findPath(text, paramsSpan.start, ["progressToken"]);
  return toOneLine(span === undefined ? text : applyEdits(text, [{ span, text: tokenText }]));
}

function requestIdSpan({ text, paramsSpan }: ClientMessage): Span | undefined {
  return paramsSpan === undefined ? undefined : findPath(text, paramsSpan.start, ["requestId"]);
}

/** The server's response as the client shall read it. */
export function rewriteResponseId(text: string, idText: string): string {
  const span = findMembers(text, 0, ["id"]).spans[0];
  return span === undefined ? text : applyEdits(text, [{ span, text: idText }]);
}

/** stdio separates messages by newlines; in JSON text those can only be white space between tokens. */
export function toOneLine(text: string): string {
  return text.includes("\n") || text.includes("\r") ? text.replaceAll(/[\r\n]/g, " ") : text;
}
