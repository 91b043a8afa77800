import type { ErrorEntry } from "./error-entry.ts";
import { HTTP_ERROR_CATALOG } from "./http-error-catalog.ts";
import { JsonRpcErrorCode } from "../protocol/error-codes.ts";
import { RESERVED_PATHS, ROUTES } from "../routes.ts";

const { InvalidParams, InternalError, ServerError, SessionOrTimeout } = JsonRpcErrorCode;
const CHECK_EFFECT = "If `retrySafe` is true, send the request again. Otherwise, check whether it took effect first.";
const OPEN_SSE_FIRST = `Open \`${ROUTES.legacySse.path}\`, and post initialize to the URL that its first event names.`;

/**
 * The errors of this program. Codes are stable. Errors about the HTTP request have an HTTP error status, those of an accepted request 200. 404 on
 * the endpoint always means that the session is gone, or, for a request without a session, that its method does not exist.
 */
export const ERROR_CATALOG = {
  ...HTTP_ERROR_CATALOG,
  SESSION_REQUIRED: {
    httpStatus: 400,
    jsonRpcCode: ServerError,
    when: "A message other than `initialize` has no `Mcp-Session-Id` header. On `/messages`, the URL has no `sessionId`, or its stream has no session yet.",
    action: "Call initialize first, then send its session id.",
    actionFor: {
      sse: OPEN_SSE_FIRST,
      browser: `Give this URL to an MCP client. \`${ROUTES.ready.path}\` shows the state of the MCP server.`,
    },
  },
  SESSION_NOT_FOUND: {
    httpStatus: 404,
    jsonRpcCode: SessionOrTimeout,
    when: "The session, or the stream of `/sse`, never existed or has ended: by DELETE, by the removal of its token, or, if it had subscriptions, by eviction (MAX_SESSIONS, MEMORY_BUDGET_BYTES). Or another token opened it. It also ends if its private server reaches RESTART_LIMIT, or if the restarted MCP server lacks capabilities that initialize promised. A session of another replica, or of the sidecar before a restart, is not found if the key differs (SESSION_KEY, SERVER_NAME) or SESSION_MAX_AGE_MS is over.",
    action: "Call initialize again, without a session id.",
    actionFor: { sse: OPEN_SSE_FIRST },
  },
  UNSUPPORTED_PROTOCOL_VERSION: {
    httpStatus: 400,
    jsonRpcCode: ServerError,
    modernCode: JsonRpcErrorCode.UnsupportedVersion,
    when: "`MCP-Protocol-Version`, or the `_meta` of a request without a session, names a revision that the sidecar does not support. `supported` lists the supported ones.",
    action: "Send a supported revision. In a session, it is the one that initialize returned.",
  },
  INVALID_PARAMS: {
    httpStatus: 400,
    jsonRpcCode: InvalidParams,
    when: "The `_meta` of a message, or a parameter of a notification, has a type that MCP forbids. Or a request without a session (revision 2026-07-28) lacks a required parameter, such as a key of `_meta`, or one has a wrong value. Or an MCP server without sessions has refused the resource of a `resources/subscribe`.",
    action: "Correct the parameter that the error message names.",
  },
  HEADER_MISMATCH: {
    httpStatus: 400,
    jsonRpcCode: JsonRpcErrorCode.HeaderMismatch,
    when: "A header of a request without a session is missing, malformed, or differs from the body: `MCP-Protocol-Version`, `Mcp-Method`, `Mcp-Name` or `Mcp-Param-*`.",
    action: "Send the headers with the values of the body.",
  },
  REQUEST_STATE_INVALID: {
    httpStatus: 200,
    jsonRpcCode: InvalidParams,
    when: "The `requestState` of a request is not the one that this client got for this request. Or the sidecar has restarted since. At an MCP server with sessions, also: it was used before, its time is up (PARK_TIMEOUT_MS), or the server has restarted.",
    action: "Check whether the call has taken effect. Then send the request again without `requestState` and `inputResponses`.",
  },
  MISSING_CAPABILITY: {
    httpStatus: 400,
    jsonRpcCode: JsonRpcErrorCode.MissingCapability,
    when: "The MCP server asked a question of a kind that the client has not declared, and cannot go on without the answer. In a session, the HTTP status is 200. `requiredCapabilities` are those that the request needs.",
    action:
      "Declare the required capabilities in the `_meta` of the request, or in `initialize`, and answer the questions; or do not use this tool.",
  },
  QUESTION_FAILED: {
    httpStatus: 200,
    jsonRpcCode: InternalError,
    when: "The question of an MCP server without sessions is invalid. In a session also: the client answered with an error, or not in time; or the server asked more than 8 times.",
    action: "Check whether the call took effect. The message says why it failed.",
  },
  METHOD_NOT_FOUND: {
    httpStatus: 404,
    jsonRpcCode: JsonRpcErrorCode.MethodNotFound,
    when: "A request without a session has a method that its revision does not have.",
    action: "Use a method of the revision of the request.",
  },
  REQUEST_TIMEOUT: {
    httpStatus: 200,
    jsonRpcCode: SessionOrTimeout,
    when: "The MCP server did not answer within REQUEST_TIMEOUT_MS, or TOOL_TIMEOUTS_MS for the tool. The time begins with the arrival of the request. Progress renews it, and so does a client's response to the server. If the request was sent, the server is told to cancel it.",
    action: "Send the request again, with fewer requests at a time, or raise the setting that the message names.",
    actionIfSent: CHECK_EFFECT,
  },
  REQUEST_CANCELLED: {
    httpStatus: 200,
    jsonRpcCode: ServerError,
    when: "The session ended while the request was queued or in flight, by DELETE; or its token was removed. If the request was sent, the server is told to cancel it.",
    action: "Send the request again with a valid token, after a new initialize if it belonged to a session.",
    actionIfSent: `In a session, call initialize again. ${CHECK_EFFECT}`,
  },
  UPSTREAM_EXITED: {
    httpStatus: 200,
    jsonRpcCode: InternalError,
    when: "The MCP server exited, or was restarted because it was unresponsive, while the request was in flight. If RETRY sent the request again, this happened twice.",
    action: CHECK_EFFECT,
  },
  UPSTREAM_NOT_READY: {
    httpStatus: 503,
    jsonRpcCode: ServerError,
    when: "The MCP server was not ready within HOLD_TIMEOUT_MS, or too many requests were already held for it. Or the request waited for a server that came back with another protocol revision. With `sent: true` (HTTP 200), the server exited, and RETRY was about to send the request again.",
    action: "Retry after `retryAfterSeconds`. `/readyz` shows the state of the server.",
  },
  UPSTREAM_FAILED: {
    httpStatus: 503,
    jsonRpcCode: ServerError,
    when: "The MCP server is in a crash loop (CRASH_LOOP_EXITS within CRASH_LOOP_PERIOD_MS), or has reached RESTART_LIMIT. It is restarted rarely, or not at all. With `sent: true` (HTTP 200), the server exited, and RETRY was about to send the request again.",
    action: "Fix the command, environment or dependencies of the server. The message, `stderrTail` and `/readyz` show why it exits.",
  },
  UPSTREAM_RESPONSE_TOO_LARGE: {
    httpStatus: 200,
    jsonRpcCode: InternalError,
    when: "The response of the MCP server is longer than MAX_LINE_BYTES, or than a quarter of MEMORY_BUDGET_BYTES, and was discarded. Or the budget was used up for a second, and it was the longest unfinished one. With a tool policy, a page of tools over 8 MiB is discarded too. The server keeps running.",
    action: "Ask for less, or raise CLAW_MCP_STDIO_MAX_LINE_BYTES or the budget. If `retrySafe` is false, it may have taken effect.",
  },
  UPSTREAM_INVALID_RESPONSE: {
    httpStatus: 200,
    jsonRpcCode: InternalError,
    when: "The MCP server answered with a message that has neither a result nor an error, or a result that is not an object. The error message names the problem. The server keeps running.",
    action: "Check whether the request took effect. The server needs a correction.",
  },
  UNKNOWN_RESULT_TYPE: {
    httpStatus: 200,
    jsonRpcCode: InternalError,
    when: "The MCP server answered with a `resultType` that is not `complete`, `input_required` or `task`; or, in a session, with one that this request cannot have.",
    action: "Check whether the request took effect. The server needs an extension that the sidecar does not support.",
  },
  OVERLOADED: {
    httpStatus: 503,
    jsonRpcCode: ServerError,
    when: "The queue is full (MAX_HELD_REQUESTS, MAX_QUEUED_BYTES). Or the request was held for HOLD_TIMEOUT_MS while MAX_IN_FLIGHT requests, or TOOL_CONCURRENCY calls of the tool, were in flight, or while all processes that MAX_PRIVATE_SERVERS permits waited for answers of clients without a session. Or all connections that MAX_CONNECTIONS permits were in use. If MAX_HELD_REQUESTS is reached, the newest request of the session with the most held requests is rejected.",
    action:
      "Retry after `retryAfterSeconds`, with fewer requests at a time. If the message names MAX_PRIVATE_SERVERS, answer the open questions, or raise it.",
  },
  OUT_OF_MEMORY: {
    httpStatus: 503,
    jsonRpcCode: ServerError,
    when: "MEMORY_BUDGET_BYTES is used up, or the client has its share of it. Any POST can get it, with a notification or a response too. With `sent: true` (HTTP 200), there was no room for the response in a batch.",
    action: "Unless `retrySafe` is true, check its effect first. Retry after `retryAfterSeconds`, with fewer or shorter requests.",
  },
  SESSION_OVERLOADED: {
    httpStatus: 429,
    jsonRpcCode: ServerError,
    when: "The client has MAX_SESSION_REQUESTS requests in flight or queued: a session, or all requests without a session of a token or address. Or a client without a session has 256 subscriptions, or 10,000 resources in them. Or 16 requests of a connection are not answered, or arrived at once; this response is its last.",
    action: "Wait for responses, or end subscriptions, then retry after `retryAfterSeconds`.",
  },
  TOOL_NOT_FOUND: {
    httpStatus: 200,
    jsonRpcCode: InvalidParams,
    when: "A rule about visible tools is on (ALLOW_TOOLS, DENY_TOOLS, READ_ONLY, DESCRIPTOR), and the tool is hidden or does not exist. Without such a rule, the server answers the call itself. With `sent: true`, the server exited, RETRY was about to send the call again, and the restarted server has changed the tool.",
    action: "Call a tool that `tools/list` returns.",
    actionIfSent: "Call `tools/list` again. Check whether the call took effect before you send it again.",
  },
  RATE_LIMITED: {
    httpStatus: 429,
    jsonRpcCode: ServerError,
    when: "A limit per minute is reached: SESSION_CALLS_PER_MINUTE for this client, TOOL_CALLS_PER_MINUTE for the tool and all clients, or SESSIONS_PER_MINUTE for new sessions.",
    action: "Retry after `retryAfterSeconds`.",
  },
  TOO_MANY_SERVERS: {
    httpStatus: 503,
    jsonRpcCode: ServerError,
    when: "The client needs a server of its own, because it can be asked or because of ISOLATION, and MAX_PRIVATE_SERVERS are in use. Or a client without a session has half of them already. A server is in use if its client has a request in flight or a stream, or had one within 60 s: within 5 s, if the client has sent no other request yet, or has the most processes that may ask clients without a session.",
    action: "Retry after `retryAfterSeconds`, end unused sessions, or raise CLAW_MCP_STDIO_MAX_PRIVATE_SERVERS.",
  },
  TOO_MANY_SESSIONS: {
    httpStatus: 503,
    jsonRpcCode: ServerError,
    when: "MAX_SESSIONS sessions exist, and all have a request in flight or a stream. Or three quarters of MAX_SESSIONS exist, and this client has a quarter of MAX_SESSIONS, all of them in use. A client is a token, or without tokens a network address.",
    action: "Retry after `retryAfterSeconds`, end unused sessions, or raise CLAW_MCP_STDIO_MAX_SESSIONS.",
  },
  EVENT_NOT_FOUND: {
    httpStatus: 400,
    jsonRpcCode: ServerError,
    when: "`Last-Event-ID` is not an event of this session at this replica, or the events after it are no longer kept (REPLAY_MAX_BYTES, REPLAY_MAX_AGE_MS, REPLAY_MAX_EVENTS).",
    action: "Open the stream without `Last-Event-ID`.",
  },
  OTHER_REPLICA: {
    httpStatus: 409,
    jsonRpcCode: ServerError,
    when: "The message belongs to another replica, or to the sidecar before a restart: a response to a request of a server that does not run here; or, with `sent: true` (HTTP 200), a reconnection for the response to a request that was sent there.",
    action: "Let a balancer send all requests with the same `Mcp-Session-Id` to one replica (docs/operations/replicas.md).",
    actionIfSent: CHECK_EFFECT,
  },
  SHUTTING_DOWN: {
    httpStatus: 503,
    jsonRpcCode: ServerError,
    when: "The sidecar is stopping.",
    action: "Send the request to another instance, or here again after the restart.",
    actionIfSent: CHECK_EFFECT,
  },
  NOT_FOUND: {
    httpStatus: 404,
    jsonRpcCode: ServerError,
    when: "The path does not exist.",
    action: `Use the path of the MCP endpoint (PATH, default ${ROUTES.endpoint.path}), or ${RESERVED_PATHS.join(", ")}.`,
  },
  INTERNAL_ERROR: {
    httpStatus: 500,
    jsonRpcCode: InternalError,
    when: "The sidecar has a defect.",
    action: "Report it with the log line `defect of the sidecar` of the same time.",
    actionIfSent: `Report it with the log line \`defect of the sidecar\` of the same time. ${CHECK_EFFECT}`,
  },
} as const satisfies Record<string, ErrorEntry>;
