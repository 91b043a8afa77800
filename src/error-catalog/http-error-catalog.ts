import type { ErrorEntry } from "./error-entry.ts";
import { JsonRpcErrorCode } from "../protocol/error-codes.ts";

const { ParseError, InvalidRequest, ServerError } = JsonRpcErrorCode;

/** The errors of an HTTP request before its session is looked up. */
export const HTTP_ERROR_CATALOG = {
  PARSE_ERROR: {
    httpStatus: 400,
    jsonRpcCode: ParseError,
    when: "The body is not UTF-8 or not JSON.",
    action: "Send one JSON-RPC 2.0 message as UTF-8 JSON.",
  },
  INVALID_REQUEST: {
    httpStatus: 400,
    jsonRpcCode: InvalidRequest,
    when: "The body is JSON, but not a valid JSON-RPC 2.0 message for this session. The error message names the problem. A member that occurs twice is not valid, even if the names differ in case, nor is a member that JSON-RPC does not have. Ids, progress tokens and names have at most 1 KiB, and subscription URIs 8 KiB. A request that is not valid HTTP has this code too: 431 for headers that are too large, 417 for an unsupported `Expect`, else 400.",
    action: "Correct the request as the error message says.",
  },
  ORIGIN_NOT_ALLOWED: {
    httpStatus: 403,
    jsonRpcCode: ServerError,
    when: "The request comes from a web page (it has an `Origin` header), and ALLOWED_ORIGINS does not list its origin. `/page/events` is for the sidecar's own page only.",
    action: "To allow this page, add its origin to CLAW_MCP_STDIO_ALLOWED_ORIGINS.",
    actionFor: { page: "Open the page of the sidecar itself." },
  },
  HOST_NOT_ALLOWED: {
    httpStatus: 403,
    jsonRpcCode: ServerError,
    when: "ALLOWED_HOSTS does not list the `Host` of the request. If ALLOWED_HOSTS is not set and the sidecar listens on loopback only, only names of this machine are allowed. Without a token, `/status`, `/metrics` and the page also reject public host names.",
    action: "Use an allowed host name, or add this one to CLAW_MCP_STDIO_ALLOWED_HOSTS.",
  },
  UNAUTHORIZED: {
    httpStatus: 401,
    jsonRpcCode: ServerError,
    when: "The bearer token is missing or not valid.",
    action: "Send `Authorization: Bearer TOKEN` with a valid token.",
  },
  METHOD_NOT_ALLOWED: {
    httpStatus: 405,
    jsonRpcCode: ServerError,
    when: "The path does not support this HTTP method, or GET at the endpoint has no session.",
    action: "Use a method of the `Allow` header.",
  },
  NOT_ACCEPTABLE: {
    httpStatus: 406,
    jsonRpcCode: ServerError,
    when: "`Accept` excludes application/json (POST), or text/event-stream (GET, `subscriptions/listen`).",
    action: "Send `Accept: application/json, text/event-stream`.",
  },
  UNSUPPORTED_MEDIA_TYPE: {
    httpStatus: 415,
    jsonRpcCode: ServerError,
    when: "`Content-Type` is not application/json in UTF-8, or the body is compressed.",
    action: "Send `Content-Type: application/json`, uncompressed.",
  },
  BODY_TOO_LARGE: {
    httpStatus: 413,
    jsonRpcCode: ServerError,
    when: "The body is larger than MAX_BODY_BYTES, or than a fifth of MEMORY_BUDGET_BYTES.",
    action: "Send less, or raise CLAW_MCP_STDIO_MAX_BODY_BYTES; its limit is a fifth of CLAW_MCP_STDIO_MEMORY_BUDGET_BYTES.",
  },
  BODY_INCOMPLETE: {
    httpStatus: 400,
    jsonRpcCode: ServerError,
    when: "The connection closed before the whole request arrived. If the request took longer than HEADERS_TIMEOUT_MS or BODY_TIMEOUT_MS, the status is 408.",
    action: "Send the request again.",
  },
} as const satisfies Record<string, ErrorEntry>;
