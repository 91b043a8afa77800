import { ERROR_CATALOG } from "../error-catalog/error-catalog.ts";
import type { ErrorEntry } from "../error-catalog/error-entry.ts";
import type { SidecarError } from "../errors.ts";
import { JsonRpcErrorCode } from "../protocol/error-codes.ts";

/** Returns the HTTP status of an error: 200 if the request was sent, because proxies and clients may retry after an HTTP error. */
export function errorStatus({ code, details }: SidecarError): number {
  const { httpStatus }: ErrorEntry = ERROR_CATALOG[code];
  return details.sent ? 200 : httpStatus;
}

/**
 * Returns a JSON-RPC error response. If the id of the request is unknown, it has no id, because `null` violates the MCP schema.
 * UNAUTHORIZED has `null`, because Python clients otherwise do not show the message.
 */
export function errorBody(error: SidecarError, idText: string | undefined): string {
  const { code, message, data } = error;
  const id = idText ?? (code === "UNAUTHORIZED" ? "null" : undefined);
  const wire = { code: ERROR_CATALOG[code].jsonRpcCode, message, data };
  return `{"jsonrpc":"2.0",${id === undefined ? "" : `"id":${id},`}"error":${JSON.stringify(wire)}}`;
}

const { ServerError, SessionOrTimeout, InternalError } = JsonRpcErrorCode;

/**
 * Returns the same for a request without a session. Its revision reserves the codes from -32000 to -32019 for those of earlier revisions
 * (MCP 2026-07-28, basic, error codes).
 */
export function modernErrorBody({ code, message, data }: SidecarError, idText: string | undefined): string {
  const { jsonRpcCode, modernCode }: ErrorEntry = ERROR_CATALOG[code];
  const isReserved = jsonRpcCode === ServerError || jsonRpcCode === SessionOrTimeout;
  const id = idText === undefined ? "" : `"id":${idText},`;
  return `{"jsonrpc":"2.0",${id}"error":${JSON.stringify({ code: modernCode ?? (isReserved ? InternalError : jsonRpcCode), message, data })}}`;
}

/** Returns the headers of an error, besides those of its JSON body. */
export function errorHeaders(error: SidecarError): Record<string, string> {
  const headers: Record<string, string> = {};
  if (error.details.retryAfterSeconds !== undefined) headers["Retry-After"] = String(error.details.retryAfterSeconds);
  return headers;
}
