import { ERROR_CATALOG, type SidecarError } from "../errors.ts";

/** An error about a request that had been sent is never an HTTP error: somebody on the way might repeat the request for it. */
export function errorStatus(error: SidecarError): number {
  return error.details.sent === true ? 200 : ERROR_CATALOG[error.code].httpStatus;
}

/**
 * The JSON-RPC error response. Without an id to give back it has none: `null` would violate the MCP schema. Only 401 has `null`: Python clients
 * show the message of no other body, and a client with a wrong token must show it.
 */
export function errorBody(error: SidecarError, idText: string | undefined): string {
  const { code, message, data } = error;
  const id = idText ?? (code === "UNAUTHORIZED" ? "null" : undefined);
  const wire = { code: ERROR_CATALOG[code].jsonRpcCode, message, data };
  return `{"jsonrpc":"2.0",${id === undefined ? "" : `"id":${id},`}"error":${JSON.stringify(wire)}}`;
}

/** The headers that belong to an error, besides those of its JSON body. */
export function errorHeaders(error: SidecarError): Record<string, string> {
  const headers: Record<string, string> = {};
  if (error.details.retryAfterSeconds !== undefined) headers["Retry-After"] = String(error.details.retryAfterSeconds);
  return headers;
}
