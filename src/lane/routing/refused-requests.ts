import { shorten } from "../../json/text.ts";
import { JsonRpcErrorCode } from "../../protocol/error-codes.ts";
import { idTextOf, type RequestMessage } from "../../protocol/message.ts";

/** Returns the sidecar's own answer to a server's `ping`. */
export function answerPing(request: RequestMessage): string {
  return `{"jsonrpc":"2.0","id":${idTextOf(request)},"result":{}}`;
}

/**
 * Returns the error for a request of a shared server. The request does not name the client that it is for, and the handshake declared no
 * client capabilities. An immediate error keeps the server from waiting.
 */
export function refuseRequest(request: RequestMessage): string {
  return errorAnswer(
    idTextOf(request),
    JsonRpcErrorCode.MethodNotFound,
    `${shorten(request.method)} is not available: this MCP server is shared, and the sidecar declared no client capabilities`,
  );
}

/** Returns the error for a request above the line limit. Without a response the server would wait forever. */
export function refuseOverlong(idText: string, bytes: number): string {
  return errorAnswer(idText, JsonRpcErrorCode.InvalidRequest, `The request is too long for the sidecar (${bytes} bytes) and was discarded`);
}

export function errorAnswer(idText: string, code: number, message: string): string {
  return `{"jsonrpc":"2.0","id":${idText},"error":${JSON.stringify({ code, message })}}`;
}
