import { JsonRpcErrorCode } from "./jsonrpc/error-codes.ts";

interface ErrorEntry {
  readonly httpStatus: number;
  readonly jsonRpcCode: number;
  readonly when: string;
  /** Also the `action` of the error's data. */
  readonly action: string;
}

const { ParseError, InvalidRequest, InvalidParams, InternalError, ServerError, SessionOrTimeout } = JsonRpcErrorCode;

/**
 * The errors of this program. Codes are stable; messages are written for the person or the model that reads them. Errors about the HTTP
 * request have an HTTP error status. Errors of an accepted request are JSON-RPC errors at 200. 404 on the endpoint always means that the
 * session is gone.
 */
export const ERROR_CATALOG = {
  PARSE_ERROR: {
    httpStatus: 400,
    jsonRpcCode: ParseError,
    when: "The body is not UTF-8 or not JSON.",
    action: "Send one JSON-RPC 2.0 message as UTF-8 JSON.",
  },
  INVALID_REQUEST: {
    httpStatus: 400,
    jsonRpcCode: InvalidRequest,
    when: "The body is JSON, but not one JSON-RPC 2.0 message with a string or number id, or repeats a member, also in another case; an id, progress token, name (1 KiB) or subscription URI (8 KiB) that is too long; a batch where the revision has none, or initialize in a session; or the request is not valid HTTP (431 for too large headers, 417 for an `Expect` that is not offered).",
    action: "Correct the message that the error names.",
  },
  ORIGIN_NOT_ALLOWED: {
    httpStatus: 403,
    jsonRpcCode: ServerError,
    when: "The request comes from a web page (it has `Origin`) whose origin is not among ALLOWED_ORIGINS.",
    action: "Add the origin to CLAW_MCP_STDIO_ALLOWED_ORIGINS if that page is to call.",
  },
  HOST_NOT_ALLOWED: {
    httpStatus: 403,
    jsonRpcCode: ServerError,
    when: "`Host` is not among ALLOWED_HOSTS or, where these are not set and only loopback is listened on, not a name of this machine; for `/status` without a token, also a name that a web page may have.",
    action: "Use an allowed host name, or add this one to CLAW_MCP_STDIO_ALLOWED_HOSTS.",
  },
  UNAUTHORIZED: {
    httpStatus: 401,
    jsonRpcCode: ServerError,
    when: "The bearer token is missing or wrong, or not the one that the session was opened with.",
    action: "Send `Authorization: Bearer` with a configured token; to a session, the one that opened it.",
  },
  METHOD_NOT_ALLOWED: {
    httpStatus: 405,
    jsonRpcCode: ServerError,
    when: "The endpoint does not offer this HTTP method.",
    action: "Use a method of the `Allow` header.",
  },
  NOT_ACCEPTABLE: {
    httpStatus: 406,
    jsonRpcCode: ServerError,
    when: "`Accept` excludes application/json (POST) or text/event-stream (GET).",
    action: "Accept both application/json and text/event-stream.",
  },
  UNSUPPORTED_MEDIA_TYPE: {
    httpStatus: 415,
    jsonRpcCode: ServerError,
    when: "The body is not declared as application/json in UTF-8 without content encoding.",
    action: "Send `Content-Type: application/json`, uncompressed.",
  },
  BODY_TOO_LARGE: {
    httpStatus: 413,
    jsonRpcCode: ServerError,
    when: "The body exceeds MAX_BODY_BYTES.",
    action: "Send less, or raise CLAW_MCP_STDIO_MAX_BODY_BYTES.",
  },
  BODY_INCOMPLETE: {
    httpStatus: 400,
    jsonRpcCode: ServerError,
    when: "The connection ended, or stalled (then HTTP 408), before the whole request had arrived.",
    action: "Send the request again.",
  },
  SESSION_REQUIRED: {
    httpStatus: 400,
    jsonRpcCode: ServerError,
    when: "A message other than initialize came without `Mcp-Session-Id`; or to `/messages` without the id of a stream, or before initialize.",
    action: "Call initialize first and send its session id.",
  },
  SESSION_NOT_FOUND: {
    httpStatus: 404,
    jsonRpcCode: SessionOrTimeout,
    when: "The session, or the stream of `/sse`, was ended, evicted, lost its token, or never existed; or the MCP server was started anew and no longer offers what `initialize` was answered with.",
    action: "Call initialize again, without a session id.",
  },
  UNSUPPORTED_PROTOCOL_VERSION: {
    httpStatus: 400,
    jsonRpcCode: ServerError,
    when: "`MCP-Protocol-Version` names a revision that is not served here.",
    action: "Send the revision that initialize answered.",
  },
  REQUEST_TIMEOUT: {
    httpStatus: 200,
    jsonRpcCode: SessionOrTimeout,
    when: "The MCP server did not answer within REQUEST_TIMEOUT_MS, or the tool's TOOL_TIMEOUTS_MS, of acceptance, or of the last progress, or of the client's answer to the server. Where it had been sent, the server was told to cancel.",
    action: "See `sent`: if true, the call may have taken effect. Check before repeating it.",
  },
  REQUEST_CANCELLED: {
    httpStatus: 200,
    jsonRpcCode: ServerError,
    when: "The session ended while the request was in flight: by DELETE, beyond MAX_SESSIONS, or because its token was taken back. The server was told to cancel.",
    action: "See `sent`: if true, the call may have taken effect.",
  },
  UPSTREAM_EXITED: {
    httpStatus: 200,
    jsonRpcCode: InternalError,
    when: "The MCP server process ended, or was ended because it hung, while the request was in flight; by RETRY, for what only reads: twice.",
    action: "See `retrySafe`: if true, send it again; if false, the call may have taken effect.",
  },
  UPSTREAM_NOT_READY: {
    httpStatus: 503,
    jsonRpcCode: ServerError,
    when: "The MCP server process was not ready within HOLD_TIMEOUT_MS, or too many requests were waiting for it. Nothing was sent; or (`sent`, with HTTP 200) a request that only reads was to be sent once more.",
    action: "Retry after `retryAfterSeconds`; `/readyz` tells what it waits for.",
  },
  UPSTREAM_FAILED: {
    httpStatus: 503,
    jsonRpcCode: ServerError,
    when: "The MCP server process ends again and again (CRASH_LOOP_EXITS within CRASH_LOOP_PERIOD_MS); it is still tried, rarely. Or it was given up: RESTART_LIMIT. As for UPSTREAM_NOT_READY, nothing was sent that could have taken effect.",
    action: "See the reason in the message, `stderrTail` and `/readyz`; mend the server's command, environment or what it depends on.",
  },
  UPSTREAM_RESPONSE_TOO_LARGE: {
    httpStatus: 200,
    jsonRpcCode: InternalError,
    when: "The MCP server's answer exceeds MAX_LINE_BYTES, or a page of tools that the tool policy has to look through has over 8 MiB, and was discarded. The server lives on.",
    action: "Ask for less, or raise CLAW_MCP_STDIO_MAX_LINE_BYTES.",
  },
  OVERLOADED: {
    httpStatus: 503,
    jsonRpcCode: ServerError,
    when: "The server has had MAX_IN_FLIGHT requests, or the tool its TOOL_CONCURRENCY calls, for HOLD_TIMEOUT_MS; or MAX_HELD_REQUESTS wait already (then the newest of the session with the most goes), or MAX_QUEUED_BYTES wait for their turn or to be read by it. Nothing was sent.",
    action: "Retry after `Retry-After` seconds.",
  },
  SESSION_OVERLOADED: {
    httpStatus: 429,
    jsonRpcCode: ServerError,
    when: "The session has MAX_SESSION_REQUESTS requests in flight or waiting. Nothing was sent.",
    action: "Wait for some of them to be answered; retry after `Retry-After` seconds.",
  },
  TOOL_NOT_FOUND: {
    httpStatus: 200,
    jsonRpcCode: InvalidParams,
    when: "There is no such tool, or the sidecar's tool policy (ALLOW_TOOLS, DENY_TOOLS, READ_ONLY, DESCRIPTOR) does not let clients see it. Nothing was sent; or (`sent`) the call was to be sent once more to a server that has changed the tool.",
    action: "Call a tool that `tools/list` names. See `sent`: if true, the call may have taken effect.",
  },
  RATE_LIMITED: {
    httpStatus: 429,
    jsonRpcCode: ServerError,
    when: "The session has had its calls of the minute (SESSION_CALLS_PER_MINUTE), or the tool has, from all sessions together (TOOL_CALLS_PER_MINUTE); or too many sessions were opened (SESSIONS_PER_MINUTE). Nothing was sent.",
    action: "Retry after `Retry-After` seconds.",
  },
  TOO_MANY_SERVERS: {
    httpStatus: 503,
    jsonRpcCode: ServerError,
    when: "The client needs a server process of its own, and MAX_PRIVATE_SERVERS are running. Nothing was sent.",
    action: "Retry after `Retry-After` seconds, end sessions that are not used, or raise CLAW_MCP_STDIO_MAX_PRIVATE_SERVERS.",
  },
  EVENT_NOT_FOUND: {
    httpStatus: 400,
    jsonRpcCode: ServerError,
    when: "`Last-Event-ID` is no event of this session, or what followed it was forgotten: REPLAY_MAX_BYTES, REPLAY_MAX_AGE_MS.",
    action: "Open the stream without it, or send the id that this session's stream gave.",
  },
  SHUTTING_DOWN: {
    httpStatus: 503,
    jsonRpcCode: ServerError,
    when: "The sidecar is stopping.",
    action: "See `sent`; retry elsewhere, or once it is back.",
  },
  NOT_FOUND: {
    httpStatus: 404,
    jsonRpcCode: ServerError,
    when: "There is nothing at this path.",
    action: "Use the configured endpoint path, /livez, /readyz, /healthz or /status.",
  },
  INTERNAL_ERROR: {
    httpStatus: 500,
    jsonRpcCode: InternalError,
    when: "A defect of the sidecar.",
    action: "Report it with the log line of the same time.",
  },
} as const satisfies Record<string, ErrorEntry>;

export type SidecarErrorCode = keyof typeof ERROR_CATALOG;

/** What an error tells besides its message. Every field is safe to show to a client. */
export interface ErrorDetails {
  /** True if any part of the request was written to the MCP server's stdin. Default: false. */
  readonly sent?: boolean;
  /** True if sending the same request again cannot repeat a side effect. Default: true if it was not sent. */
  readonly retrySafe?: boolean;
  readonly exitCode?: number;
  readonly signal?: string;
  /** The last lines that the MCP server wrote to stderr, with secrets masked. */
  readonly stderrTail?: readonly string[];
  readonly timeoutMs?: number;
  readonly limitBytes?: number;
  readonly supported?: readonly string[];
  /** Also the `Retry-After` header, in whole seconds. */
  readonly retryAfterSeconds?: number;
}

export class SidecarError extends Error {
  override readonly name = "SidecarError";
  readonly code: SidecarErrorCode;
  readonly details: ErrorDetails;

  constructor(code: SidecarErrorCode, message: string, details: ErrorDetails = {}) {
    super(message);
    this.code = code;
    const { sent = false } = details;
    this.details = { sent, retrySafe: !sent, ...details };
  }

  /** The `data` that a client gets with the message. */
  get data(): object {
    return { code: this.code, action: ERROR_CATALOG[this.code].action, ...this.details };
  }
}

/** Whatever was thrown, as one line of text for a log or a person. */
export function describeError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
