/** A metric of `/metrics`. Its name and labels are a contract with dashboards and alerts (docs/METRICS.md). */
export interface MetricDefinition {
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels?: readonly string[];
}

/**
 * All metrics, besides those of the process. The first group has the names and labels of OpenTelemetry's conventions for MCP, in the form of
 * Prometheus (https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md).
 */
export const METRICS = {
  mcp_server_operation_duration_seconds: {
    type: "histogram",
    help: "Time of a client's request, from its arrival until its response is complete. Refused requests are included.",
    labels: ["mcp_method_name", "gen_ai_tool_name", "error_type", "mcp_protocol_version", "network_transport"],
  },
  mcp_server_session_duration_seconds: {
    type: "histogram",
    help: "Time from the start of a session to its end.",
    labels: ["mcp_protocol_version", "network_transport"],
  },

  claw_mcp_stdio_build_info: { type: "gauge", help: "Always 1. The labels name the versions.", labels: ["version", "node"] },

  claw_mcp_stdio_requests_accepted_total: {
    type: "counter",
    help: "Requests that were accepted from clients, without discoveries and subscriptions of clients without a session.",
  },
  claw_mcp_stdio_requests_refused_total: {
    type: "counter",
    help: "Valid requests that were refused on arrival because of a limit or the state of the server.",
    labels: ["code"],
  },
  claw_mcp_stdio_requests_held_total: { type: "counter", help: "Accepted requests that had to wait for the server." },
  claw_mcp_stdio_requests_repeated_total: { type: "counter", help: "Accepted requests that were sent again after an exit of the server." },
  claw_mcp_stdio_requests_ended_total: {
    type: "counter",
    help: "Accepted requests by their end: results, errors, dismissed, unread, or the error code of the sidecar.",
    labels: ["ending"],
  },
  claw_mcp_stdio_request_queue_seconds: {
    type: "histogram",
    help: "Time from the arrival of a request until it is sent to the server for the first time, or fails without being sent.",
    labels: ["mcp_method_name", "gen_ai_tool_name"],
  },
  claw_mcp_stdio_request_server_seconds: {
    type: "histogram",
    help: "Time from the first sending of a request until its end, with all restarts, repetitions and questions to the client.",
    labels: ["mcp_method_name", "gen_ai_tool_name"],
  },
  claw_mcp_stdio_rejected_http_requests_total: {
    type: "counter",
    help: "HTTP requests that were rejected before they became requests of MCP.",
    labels: ["code"],
  },
  claw_mcp_stdio_http_responses_total: {
    type: "counter",
    help: "HTTP responses by status, probes and scrapes included. An event stream counts when it ends.",
    labels: ["status"],
  },
  claw_mcp_stdio_http_readers_cut_off_total: { type: "counter", help: "Connections that were closed because their client did not read." },
  claw_mcp_stdio_http_connections_dropped_total: { type: "counter", help: "Connections that were closed because there were too many." },

  claw_mcp_stdio_requests_in_flight: {
    type: "gauge",
    help: "Requests that the servers of a lane have not answered, held ones included.",
    labels: ["lane"],
  },
  claw_mcp_stdio_requests_waiting: { type: "gauge", help: "Held requests and notifications.", labels: ["lane"] },
  claw_mcp_stdio_queued_bytes: {
    type: "gauge",
    help: "Bytes that are queued, or not yet read by the servers of a lane.",
    labels: ["lane"],
  },
  claw_mcp_stdio_calls_suspended: { type: "gauge", help: "Calls of sessions that wait for the answers of their clients." },
  claw_mcp_stdio_calls_parked: { type: "gauge", help: "Calls of clients without a session that wait for their answers." },
  claw_mcp_stdio_parked_calls_expired_total: { type: "counter", help: "Parked calls that ended because of PARK_TIMEOUT_MS." },
  claw_mcp_stdio_parked_calls_refused_total: { type: "counter", help: "Rounds of questions that were refused because of a limit." },
  claw_mcp_stdio_questions_unattributed_total: {
    type: "counter",
    help: "Questions of servers that were refused because their call could not be found out.",
  },

  claw_mcp_stdio_server_ready: { type: "gauge", help: "1 if the shared server is ready, else 0." },
  claw_mcp_stdio_server_state: { type: "gauge", help: "1 for the present state of the shared server.", labels: ["state"] },
  claw_mcp_stdio_server_generation: { type: "gauge", help: "Number of the present run of the shared server, from 1." },
  claw_mcp_stdio_server_ready_time_seconds: {
    type: "gauge",
    help: "Unix time at which the shared server became ready. Absent while it is not.",
  },
  claw_mcp_stdio_server_restarts_total: { type: "counter", help: "Restarts of the shared server." },
  claw_mcp_stdio_server_exits_total: { type: "counter", help: "Exits of servers by kind (docs/operations/restarts.md).", labels: ["kind"] },
  claw_mcp_stdio_server_processes: { type: "gauge", help: "Processes of servers, those that are stopping included.", labels: ["lane"] },
  claw_mcp_stdio_dropped_messages_total: {
    type: "counter",
    help: "Messages that were discarded, by kind (docs/operations/status.md).",
    labels: ["kind"],
  },

  claw_mcp_stdio_sessions: { type: "gauge", help: "Open sessions." },
  claw_mcp_stdio_streams: { type: "gauge", help: "Connections with an open event stream." },
  claw_mcp_stdio_stateless_clients: { type: "gauge", help: "Clients without a session that are remembered." },
  claw_mcp_stdio_stateless_subscriptions: { type: "gauge", help: "Open subscriptions of clients without a session." },
  claw_mcp_stdio_stateless_requests_total: { type: "counter", help: "Requests without a session." },

  claw_mcp_stdio_memory_budget_bytes: { type: "gauge", help: "Limit of the memory for messages (MEMORY_BUDGET_BYTES)." },
  claw_mcp_stdio_memory_used_bytes: {
    type: "gauge",
    help: "Memory for messages: bodies, requests, replay, unread, subscriptions, serverOutput.",
    labels: ["kind"],
  },

  claw_mcp_stdio_invalid_arguments_total: { type: "counter", help: "Calls whose arguments violated the schema of their tool." },
  claw_mcp_stdio_argument_checks_given_up_total: {
    type: "counter",
    help: "Checks of arguments that were ended because of time or memory.",
  },
  claw_mcp_stdio_truncated_results_total: { type: "counter", help: "Results that were truncated to MAX_RESULT_BYTES." },
  claw_mcp_stdio_defects_total: { type: "counter", help: "Bugs of the sidecar. Each failed one request or one server at most." },
} as const satisfies Record<string, MetricDefinition>;

export type MetricName = keyof typeof METRICS;

/** The value of one series. */
export interface Sample {
  readonly metric: MetricName;
  readonly labels?: Readonly<Record<string, string>>;
  readonly value: number | HistogramValue;
}

/** The values of a histogram. */
export interface HistogramValue {
  readonly count: number;
  readonly sum: number;
  /** The number of observations up to each bound, in the order of the bounds. */
  readonly cumulative: readonly number[];
}
