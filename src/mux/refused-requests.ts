import { shorten } from "../json/text.ts";
import { JsonRpcErrorCode } from "../jsonrpc/error-codes.ts";
import { idTextOf, type RequestMessage } from "../jsonrpc/message.ts";

/** The sidecar is there, whatever its clients do: it answers a server's `ping` itself. */
export function answerPing(request: RequestMessage): string {
  return `{"jsonrpc":"2.0","id":${idTextOf(request)},"result":{}}`;
}

/**
 * Refuses a request of a shared server at once, so that it never waits: it cannot say which of its clients the request is for, and was
 * told in the handshake that there are no client capabilities.
 */
export function refuseRequest(request: RequestMessage): string {
  return errorAnswer(
    idTextOf(request),
    JsonRpcErrorCode.MethodNotFound,
    `No client of this shared MCP server can be asked for ${shorten(request.method)}: it declared no client capabilities`,
  );
}

/** What is longer than any message may be was thrown away; the server that asked would wait for ever. */
export function refuseOverlong(idText: string, limitBytes: number): string {
  return errorAnswer(idText, JsonRpcErrorCode.InvalidRequest, `The request is longer than ${limitBytes} bytes and was discarded`);
}

export function errorAnswer(idText: string, code: number, message: string): string {
  return `{"jsonrpc":"2.0","id":${idText},"error":${JSON.stringify({ code, message })}}`;
}
