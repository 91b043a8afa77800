import type { SidecarError, SidecarErrorCode } from "../errors.ts";
import { JsonRpcErrorCode } from "../jsonrpc/error-codes.ts";

export interface WireError {
  readonly httpStatus: number;
  readonly jsonRpcCode: number;
}

const { ParseError, InvalidRequest, InvalidParams, InternalError, ServerError, SessionOrTimeout } = JsonRpcErrorCode;

/**
 * How a local error crosses the wire. What concerns the HTTP request is an HTTP error; what became of a request that was accepted is
 * a JSON-RPC error at 200, so that every client hands it on; 404 on the endpoint means "this session is gone" and nothing else.
 */
export const WIRE_ERRORS = {
  PARSE_ERROR: { httpStatus: 400, jsonRpcCode: ParseError },
  INVALID_REQUEST: { httpStatus: 400, jsonRpcCode: InvalidRequest },
  ORIGIN_NOT_ALLOWED: { httpStatus: 403, jsonRpcCode: ServerError },
  HOST_NOT_ALLOWED: { httpStatus: 403, jsonRpcCode: ServerError },
  UNAUTHORIZED: { httpStatus: 401, jsonRpcCode: ServerError },
  METHOD_NOT_ALLOWED: { httpStatus: 405, jsonRpcCode: ServerError },
  NOT_ACCEPTABLE: { httpStatus: 406, jsonRpcCode: ServerError },
  UNSUPPORTED_MEDIA_TYPE: { httpStatus: 415, jsonRpcCode: ServerError },
  BODY_TOO_LARGE: { httpStatus: 413, jsonRpcCode: ServerError },
  BODY_INCOMPLETE: { httpStatus: 400, jsonRpcCode: ServerError },
  SESSION_REQUIRED: { httpStatus: 400, jsonRpcCode: ServerError },
  SESSION_NOT_FOUND: { httpStatus: 404, jsonRpcCode: SessionOrTimeout },
  UNSUPPORTED_PROTOCOL_VERSION: { httpStatus: 400, jsonRpcCode: ServerError },
  REQUEST_TIMEOUT: { httpStatus: 200, jsonRpcCode: SessionOrTimeout },
  REQUEST_CANCELLED: { httpStatus: 200, jsonRpcCode: ServerError },
  UPSTREAM_EXITED: { httpStatus: 200, jsonRpcCode: InternalError },
  UPSTREAM_NOT_READY: { httpStatus: 503, jsonRpcCode: ServerError },
  UPSTREAM_FAILED: { httpStatus: 503, jsonRpcCode: ServerError },
  UPSTREAM_RESPONSE_TOO_LARGE: { httpStatus: 200, jsonRpcCode: InternalError },
  OVERLOADED: { httpStatus: 503, jsonRpcCode: ServerError },
  SESSION_OVERLOADED: { httpStatus: 429, jsonRpcCode: ServerError },
  TOOL_NOT_FOUND: { httpStatus: 200, jsonRpcCode: InvalidParams },
  RATE_LIMITED: { httpStatus: 429, jsonRpcCode: ServerError },
  TOO_MANY_SERVERS: { httpStatus: 503, jsonRpcCode: ServerError },
  EVENT_NOT_FOUND: { httpStatus: 400, jsonRpcCode: ServerError },
  SHUTTING_DOWN: { httpStatus: 503, jsonRpcCode: ServerError },
  NOT_FOUND: { httpStatus: 404, jsonRpcCode: ServerError },
  INTERNAL_ERROR: { httpStatus: 500, jsonRpcCode: InternalError },
} as const satisfies Record<SidecarErrorCode, WireError>;

/** An error about a request that had been sent is never an HTTP error: somebody on the way might repeat the request for it. */
export function errorStatus(error: SidecarError): number {
  return error.details.sent === true ? 200 : WIRE_ERRORS[error.code].httpStatus;
}

/** The JSON-RPC error response. Without an id to give back it has none: `null` would violate the MCP schema. */
export function errorBody(error: SidecarError, idText: string | undefined): string {
  const { code, message, details } = error;
  const wire = { code: WIRE_ERRORS[code].jsonRpcCode, message, data: { code, ...details } };
  return `{"jsonrpc":"2.0",${idText === undefined ? "" : `"id":${idText},`}"error":${JSON.stringify(wire)}}`;
}

/** The headers that belong to an error, besides those of its JSON body. */
export function errorHeaders(error: SidecarError): Record<string, string> {
  const headers: Record<string, string> = {};
  if (error.details.retryAfterSeconds !== undefined) headers["Retry-After"] = String(error.details.retryAfterSeconds);
  return headers;
}
