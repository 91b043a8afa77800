import { JsonRpcErrorCode } from "../jsonrpc/error-codes.ts";
import type { RequestMessage } from "../jsonrpc/message.ts";
import { findMembers } from "../jsonrpc/splice.ts";
import { shorten } from "./failures.ts";

/** The sidecar is there, whatever its clients do: it answers a server's `ping` itself. */
export function answerPing(request: RequestMessage, text: string): string {
  return `{"jsonrpc":"2.0","id":${requestIdText(request, text)},"result":{}}`;
}

/**
 * Refuses a request of a shared server at once, so that it never waits: it cannot say which of its clients the request is for, and was
 * told in the handshake that there are no client capabilities.
 */
export function refuseRequest(request: RequestMessage, text: string): string {
  return errorAnswer(
    requestIdText(request, text),
    JsonRpcErrorCode.MethodNotFound,
    `No client of this shared MCP server can be asked for ${shorten(request.method)}: it declared no client capabilities`,
  );
}

/** What is longer than any message may be was thrown away; the server that asked would wait for ever. */
export function refuseOverlong(idText: string, limitLength: number): string {
  return errorAnswer(idText, JsonRpcErrorCode.InvalidRequest, `The request is longer than ${limitLength} characters and was discarded`);
}

export function errorAnswer(idText: string, code: number, message: string): string {
  return `{"jsonrpc":"2.0","id":${idText},"error":${JSON.stringify({ code, message })}}`;
}

export function requestIdText(request: RequestMessage, text: string): string {
  const span = findMembers(text, 0, ["id"]).spans[0];
  return span === undefined ? JSON.stringify(request.id) : text.slice(span.start, span.end);
}
