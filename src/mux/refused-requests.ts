import { JsonRpcErrorCode } from "../jsonrpc/error-codes.ts";
import type { RequestMessage } from "../jsonrpc/message.ts";
import { findMembers } from "../jsonrpc/splice.ts";
import { shorten } from "./failures.ts";

/**
 * Answers a request of the server itself, at once, so that it never waits. A shared server cannot say which of its clients a request is
 * for, and was told in the handshake that there are no client capabilities: all but `ping` is refused.
 */
export function answerServerRequest(request: RequestMessage, text: string): string {
  const span = findMembers(text, 0, ["id"]).spans[0];
  const id = span === undefined ? JSON.stringify(request.id) : text.slice(span.start, span.end);
  if (request.method === "ping") return `{"jsonrpc":"2.0","id":${id},"result":{}}`;
  const error = {
    code: JsonRpcErrorCode.MethodNotFound,
    message: `No client of this shared MCP server can be asked for ${shorten(request.method)}: it declared no client capabilities`,
  };
  return `{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify(error)}}`;
}
