import { RESERVED_PATHS, ROUTES } from "../routes.ts";

/** JSON-RPC 2.0 §5.1; -32000 to -32099 are for implementations. */
export const JsonRpcErrorCode = {
  ParseError: -32700,
  InvalidRequest: -32600,
  MethodNotFound: -32601,
  InvalidParams: -32602,
  InternalError: -32603,
  /** `data.code` names the error. */
  ServerError: -32000,
  /** MCP SDKs use it for a session that does not exist (HTTP 404), and for a request that timed out (HTTP 200). */
  SessionOrTimeout: -32001,
  /** MCP 2026-07-28, basic/transports. */
  HeaderMismatch: -32020,
  /** MCP 2026-07-28, basic. */
  MissingCapability: -32021,
  /** MCP 2026-07-28, basic/versioning. */
  UnsupportedVersion: -32022,
} as const;

/** Clients that need other advice, as docs/ERRORS.md names them. */
export const SPECIAL_CLIENTS = { sse: "On `/messages`", browser: "In a browser", page: "On `/page/events`" } as const;
export type SpecialClient = keyof typeof SPECIAL_CLIENTS;

export interface ErrorEntry {
  readonly httpStatus: number;
  readonly jsonRpcCode: number;
  /** For requests without a session, if it differs and is not that of an internal error. */
  readonly modernCode?: number;
  readonly when: string;
  /** Also the `action` of the error's data. */
  readonly action: string;
  /** If the request was sent, if that needs other advice. */
  readonly actionIfSent?: string;
  readonly actionFor?: Readonly<Partial<Record<SpecialClient, string>>>;
}

const { ParseError, InvalidRequest, MethodNotFound, InvalidParams, InternalError, ServerError, SessionOrTimeout } = JsonRpcErrorCode;
const { HeaderMismatch, MissingCapability, UnsupportedVersion } = JsonRpcErrorCode;
const CHECK_EFFECT = "If `retrySafe` is true, send the request again. Otherwise, check whether it took effect first.";
const OPEN_SSE_FIRST = `Open \`${ROUTES.legacySse.path}\`, and post initialize to the URL that its first event names.`;

function entry(httpStatus: number, jsonRpcCode: number, texts: Omit<ErrorEntry, "httpStatus" | "jsonRpcCode">): ErrorEntry {
  return { httpStatus, jsonRpcCode, ...texts };
}

/**
 * Codes are stable. Errors about the HTTP request have an HTTP error status, those of an accepted request 200. 404 on the endpoint always
 * means that the session is gone or, without one, that the method does not exist.
 */
export const ERROR_CATALOG = {
  PARSE_ERROR: entry(400, ParseError, {
    when: "The body is not UTF-8 or not JSON.",
    action: "Send one JSON-RPC 2.0 message as UTF-8 JSON.",
  }),
  INVALID_REQUEST: entry(400, InvalidRequest, {
    when: "The body is not a valid JSON-RPC 2.0 message for this session. No member may occur twice, even in another case. Ids, progress tokens and names have at most 1 KiB, subscription URIs 8 KiB. Or the request is not valid HTTP: 431 for too large headers, 417 for `Expect`, else 400.",
    action: "Correct the request as the error message says.",
  }),
  ORIGIN_NOT_ALLOWED: entry(403, ServerError, {
    when: "The request comes from a web page whose origin ALLOWED_ORIGINS does not list. `/page/events` is for the sidecar's own page only.",
    action: "To allow this page, add its origin to CLAW_MCP_STDIO_ALLOWED_ORIGINS.",
    actionFor: { page: "Open the page of the sidecar itself." },
  }),
  HOST_NOT_ALLOWED: entry(403, ServerError, {
    when: "ALLOWED_HOSTS does not list the `Host`. On loopback, only names of this machine are allowed by default. Without a token, `/status`, `/metrics` and the page reject public names.",
    action: "Use an allowed host name, or add this one to CLAW_MCP_STDIO_ALLOWED_HOSTS.",
  }),
  UNAUTHORIZED: entry(401, ServerError, {
    when: "The bearer token is missing or not valid.",
    action: "Send `Authorization: Bearer TOKEN` with a valid token.",
  }),
  METHOD_NOT_ALLOWED: entry(405, ServerError, {
    when: "The path does not support this HTTP method, or GET has no session.",
    action: "Use a method of the `Allow` header.",
  }),
  NOT_ACCEPTABLE: entry(406, ServerError, {
    when: "`Accept` excludes application/json (POST), or text/event-stream (GET, `subscriptions/listen`).",
    action: "Send `Accept: application/json, text/event-stream`.",
  }),
  UNSUPPORTED_MEDIA_TYPE: entry(415, ServerError, {
    when: "`Content-Type` is not application/json in UTF-8, or the body is compressed.",
    action: "Send `Content-Type: application/json`, uncompressed.",
  }),
  BODY_TOO_LARGE: entry(413, ServerError, {
    when: "The body is larger than MAX_BODY_BYTES, or than a fifth of MEMORY_BUDGET_BYTES.",
    action: "Send less, or raise CLAW_MCP_STDIO_MAX_BODY_BYTES or CLAW_MCP_STDIO_MEMORY_BUDGET_BYTES.",
  }),
  BODY_INCOMPLETE: entry(400, ServerError, {
    when: "The connection closed before the whole request arrived. 408: it took longer than HEADERS_TIMEOUT_MS or BODY_TIMEOUT_MS.",
    action: "Send the request again.",
  }),
  SESSION_REQUIRED: entry(400, ServerError, {
    when: "A message other than `initialize` has no `Mcp-Session-Id` header, or on `/messages` no `sessionId` of an open stream.",
    action: "Call initialize first, then send its session id.",
    actionFor: {
      sse: OPEN_SSE_FIRST,
      browser: `Give this URL to an MCP client. \`${ROUTES.ready.path}\` shows the state of the MCP server.`,
    },
  }),
  SESSION_NOT_FOUND: entry(404, SessionOrTimeout, {
    when: "The session has ended: DELETE, a removed token, eviction with subscriptions, RESTART_LIMIT, or a server that came back with fewer capabilities. Or another token opened it, its key (SESSION_KEY, SERVER_NAME) is another one, or SESSION_MAX_AGE_MS is over.",
    action: "Call initialize again, without a session id.",
    actionFor: { sse: OPEN_SSE_FIRST },
  }),
  UNSUPPORTED_PROTOCOL_VERSION: entry(400, ServerError, {
    modernCode: UnsupportedVersion,
    when: "`MCP-Protocol-Version`, or the `_meta` of a request without a session, names an unknown revision. `supported` lists the known ones.",
    action: "Send a supported revision. In a session, it is the one that initialize returned.",
  }),
  INVALID_PARAMS: entry(400, InvalidParams, {
    when: "`_meta`, or a parameter of a notification, has a type that MCP forbids. Or a request without a session lacks a parameter or has a wrong value. Or a server without sessions refused the resource of a subscription.",
    action: "Correct the parameter that the error message names.",
  }),
  HEADER_MISMATCH: entry(400, HeaderMismatch, {
    when: "A header of a request without a session is missing or differs from the body: `MCP-Protocol-Version`, `Mcp-Method`, `Mcp-Name` or `Mcp-Param-*`.",
    action: "Send the headers with the values of the body.",
  }),
  REQUEST_STATE_INVALID: entry(200, InvalidParams, {
    when: "The `requestState` is not the one that this client got for this request, or the sidecar has restarted. At a server with sessions also: it was used before, PARK_TIMEOUT_MS is over, or the server has restarted.",
    action: "Check whether the call has taken effect. Then send the request again without `requestState` and `inputResponses`.",
  }),
  MISSING_CAPABILITY: entry(400, MissingCapability, {
    when: "The server needs the answer to a question that the client has not declared. In a session, the status is 200.",
    action:
      "Declare `requiredCapabilities` in the `_meta` of the request, or in `initialize`, and answer the questions; or do not use this tool.",
  }),
  QUESTION_FAILED: entry(200, InternalError, {
    when: "The question of a server without sessions is invalid. In a session also: the client answered with an error, or not in time; or there were more than 8 questions.",
    action: "Check whether the call took effect. The message says why it failed.",
  }),
  METHOD_NOT_FOUND: entry(404, MethodNotFound, {
    when: "A request without a session has a method that its revision does not have.",
    action: "Use a method of the revision of the request.",
  }),
  REQUEST_TIMEOUT: entry(200, SessionOrTimeout, {
    when: "The server did not answer within REQUEST_TIMEOUT_MS, or TOOL_TIMEOUTS_MS for the tool, since the arrival or the last progress. If the request was sent, the server is told to cancel it.",
    action: "Send the request again, with fewer requests at a time, or raise the setting that the message names.",
    actionIfSent: CHECK_EFFECT,
  }),
  REQUEST_CANCELLED: entry(200, ServerError, {
    when: "The session ended by DELETE, or its token was removed. If the request was sent, the server is told to cancel it.",
    action: "Send the request again with a valid token, after a new initialize if it belonged to a session.",
    actionIfSent: `In a session, call initialize again. ${CHECK_EFFECT}`,
  }),
  UPSTREAM_EXITED: entry(200, InternalError, {
    when: "The server exited, or was restarted because it was unresponsive, while the request was in flight; if RETRY applied, twice.",
    action: CHECK_EFFECT,
  }),
  UPSTREAM_NOT_READY: entry(503, ServerError, {
    when: "The server was not ready within HOLD_TIMEOUT_MS, too many requests were held for it, or it came back with another revision. With `sent: true` (HTTP 200), RETRY was about to send the request again.",
    action: "Retry after `retryAfterSeconds`. `/readyz` shows the state of the server.",
  }),
  UPSTREAM_FAILED: entry(503, ServerError, {
    when: "The server is in a crash loop (CRASH_LOOP_EXITS within CRASH_LOOP_PERIOD_MS), or has reached RESTART_LIMIT. `sent: true` as for UPSTREAM_NOT_READY.",
    action: "Fix the command, environment or dependencies of the server. The message, `stderrTail` and `/readyz` show why it exits.",
  }),
  UPSTREAM_RESPONSE_TOO_LARGE: entry(200, InternalError, {
    when: "The response is longer than MAX_LINE_BYTES or a quarter of MEMORY_BUDGET_BYTES. Or the budget was used up, and it was the longest. Or it is a page of tools over 8 MiB. The server keeps running.",
    action: "Ask for less, or raise CLAW_MCP_STDIO_MAX_LINE_BYTES or the budget. If `retrySafe` is false, it may have taken effect.",
  }),
  UPSTREAM_INVALID_RESPONSE: entry(200, InternalError, {
    when: "The server answered with neither a result nor an error, or with a result that is not an object. The server keeps running.",
    action: "Check whether the request took effect. The server needs a correction.",
  }),
  UNKNOWN_RESULT_TYPE: entry(200, InternalError, {
    when: "The server answered with a `resultType` that is not `complete`, `input_required` or `task`, or that this request cannot have.",
    action: "Check whether the request took effect. The server needs an extension that the sidecar does not support.",
  }),
  OVERLOADED: entry(503, ServerError, {
    when: "MAX_HELD_REQUESTS, MAX_QUEUED_BYTES or MAX_CONNECTIONS is reached. Or the request was held for HOLD_TIMEOUT_MS because of MAX_IN_FLIGHT, TOOL_CONCURRENCY, or MAX_PRIVATE_SERVERS processes that all wait for answers.",
    action:
      "Retry after `retryAfterSeconds`, with fewer requests at a time. If the message names MAX_PRIVATE_SERVERS, answer the open questions, or raise it.",
  }),
  OUT_OF_MEMORY: entry(503, ServerError, {
    when: "MEMORY_BUDGET_BYTES is used up, or the client has its share. Any POST can get it, a notification too. With `sent: true` (HTTP 200), a batch had no room for the response.",
    action: "Unless `retrySafe` is true, check its effect first. Retry after `retryAfterSeconds`, with fewer or shorter requests.",
  }),
  SESSION_OVERLOADED: entry(429, ServerError, {
    when: "The session or client has MAX_SESSION_REQUESTS requests in flight or queued, or without a session 256 subscriptions or 10,000 resources. Or 16 requests of the connection are unanswered; this response is its last.",
    action: "Wait for responses, or end subscriptions, then retry after `retryAfterSeconds`.",
  }),
  TOOL_NOT_FOUND: entry(200, InvalidParams, {
    when: "ALLOW_TOOLS, DENY_TOOLS, READ_ONLY or DESCRIPTOR is set, and the tool is hidden or does not exist. With `sent: true`, the restarted server has changed the tool before RETRY sent the call again.",
    action: "Call a tool that `tools/list` returns.",
    actionIfSent: "Call `tools/list` again. Check whether the call took effect before you send it again.",
  }),
  RATE_LIMITED: entry(429, ServerError, {
    when: "SESSION_CALLS_PER_MINUTE, TOOL_CALLS_PER_MINUTE or SESSIONS_PER_MINUTE is reached.",
    action: "Retry after `retryAfterSeconds`.",
  }),
  TOO_MANY_SERVERS: entry(503, ServerError, {
    when: "The client needs a server of its own, and all MAX_PRIVATE_SERVERS are in use, or it has half of them already. In use: a request or stream within 60 s, or 5 s after `initialize` alone.",
    action: "Retry after `retryAfterSeconds`, end unused sessions, or raise CLAW_MCP_STDIO_MAX_PRIVATE_SERVERS.",
  }),
  TOO_MANY_SESSIONS: entry(503, ServerError, {
    when: "MAX_SESSIONS sessions exist, and all are in use. Or three quarters of them exist, and this client has a quarter, all in use.",
    action: "Retry after `retryAfterSeconds`, end unused sessions, or raise CLAW_MCP_STDIO_MAX_SESSIONS.",
  }),
  EVENT_NOT_FOUND: entry(400, ServerError, {
    when: "`Last-Event-ID` is not an event of this session at this replica, or some events after it are gone (REPLAY_MAX_BYTES, REPLAY_MAX_AGE_MS, REPLAY_MAX_EVENTS).",
    action: "Open the stream without `Last-Event-ID`.",
  }),
  OTHER_REPLICA: entry(409, ServerError, {
    when: "The message answers a server of another replica, or of the sidecar before a restart. With `sent: true` (HTTP 200), it is a reconnection for a response that is due there.",
    action: "Let a balancer send all requests with the same `Mcp-Session-Id` to one replica (docs/operations/replicas.md).",
    actionIfSent: CHECK_EFFECT,
  }),
  SHUTTING_DOWN: entry(503, ServerError, {
    when: "The sidecar is stopping.",
    action: "Send the request to another instance, or here again after the restart.",
    actionIfSent: CHECK_EFFECT,
  }),
  NOT_FOUND: entry(404, ServerError, {
    when: "The path does not exist.",
    action: `Use the path of the MCP endpoint (PATH, default ${ROUTES.endpoint.path}), or ${RESERVED_PATHS.join(", ")}.`,
  }),
  INTERNAL_ERROR: entry(500, InternalError, {
    when: "The sidecar has a defect.",
    action: "Report it with the log line `defect of the sidecar` of the same time.",
    actionIfSent: `Report it with the log line \`defect of the sidecar\` of the same time. ${CHECK_EFFECT}`,
  }),
};

export type SidecarErrorCode = keyof typeof ERROR_CATALOG;

/** All fields are safe to show to a client. */
export interface ErrorDetails {
  /** True if any part of the request was written to the server's stdin. Default: false. */
  readonly sent?: boolean;
  /** True if sending the same request again cannot repeat a side effect. Default: true if it was not sent. */
  readonly retrySafe?: boolean;
  readonly exitCode?: number | undefined;
  readonly signal?: string | undefined;
  /** With secrets masked. */
  readonly stderrTail?: readonly string[];
  readonly timeoutMs?: number;
  readonly limitBytes?: number | undefined;
  readonly supported?: readonly string[];
  readonly requiredCapabilities?: object;
  readonly requested?: string;
  /** Also the `Retry-After` header, in whole seconds. */
  readonly retryAfterSeconds?: number;
}

export class SidecarError extends Error {
  override readonly name = "SidecarError";
  readonly code: SidecarErrorCode;
  readonly details: ErrorDetails & Required<Pick<ErrorDetails, "sent" | "retrySafe">>;
  readonly #client: SpecialClient | undefined;

  constructor(code: SidecarErrorCode, message: string, details: ErrorDetails = {}, client?: SpecialClient) {
    super(message);
    this.code = code;
    this.#client = client;
    const { sent = false } = details;
    this.details = { sent, retrySafe: !sent, ...details };
  }

  /** The `data` of the JSON-RPC error (docs/ERRORS.md). */
  get data() {
    return { code: this.code, action: actionOf(this.code, this.details.sent, this.#client), ...this.details };
  }
}

export function actionOf(code: SidecarErrorCode, sent = false, client?: SpecialClient): string {
  const { action, actionIfSent = action, actionFor = {} }: ErrorEntry = ERROR_CATALOG[code];
  const special = client === undefined ? undefined : actionFor[client];
  return special ?? (sent ? actionIfSent : action);
}

export function describeError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export function invalidParams(problem: string): SidecarError {
  return new SidecarError("INVALID_PARAMS", `${problem.charAt(0).toUpperCase()}${problem.slice(1)}. The request was not sent.`);
}
