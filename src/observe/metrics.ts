/** A metric of `/metrics`. Its name and labels are a contract with dashboards and alerts (docs/METRICS.md). */
export interface MetricDefinition {
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels: readonly string[];
}

function ofType(type: MetricDefinition["type"]) {
  return (help: string, ...labels: readonly string[]): MetricDefinition => ({ type, help, labels });
}

const [counter, gauge, histogram] = [ofType("counter"), ofType("gauge"), ofType("histogram")];

/**
 * All metrics, besides those of the process. The first group has the names and labels of OpenTelemetry's conventions for MCP, in the form of
 * Prometheus (https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md).
 */
export const METRICS = {
  mcp_server_operation_duration_seconds: histogram(
    "Time of a client's request, from its arrival until its response is complete, refused ones included.",
    "mcp_method_name",
    "gen_ai_tool_name",
    "error_type",
    "mcp_protocol_version",
    "network_transport",
  ),
  mcp_server_session_duration_seconds: histogram(
    "Time from the start of a session to its end.",
    "mcp_protocol_version",
    "network_transport",
  ),

  claw_mcp_stdio_build_info: gauge("Always 1. The labels name the versions.", "version", "node"),

  claw_mcp_stdio_requests_accepted_total: counter("Accepted requests, without discoveries and subscriptions of clients without a session."),
  claw_mcp_stdio_requests_refused_total: counter("Valid requests that were refused on arrival.", "code"),
  claw_mcp_stdio_requests_held_total: counter("Accepted requests that had to wait for the server."),
  claw_mcp_stdio_requests_repeated_total: counter("Accepted requests that were sent again after an exit."),
  claw_mcp_stdio_requests_ended_total: counter(
    "Accepted requests by their end: results, errors, dismissed, unread, or an error code of the sidecar.",
    "ending",
  ),
  claw_mcp_stdio_request_queue_seconds: histogram(
    "Time from the arrival of a request until it is first sent, or fails unsent.",
    "mcp_method_name",
    "gen_ai_tool_name",
  ),
  claw_mcp_stdio_request_server_seconds: histogram(
    "Time from the first sending of a request until its end.",
    "mcp_method_name",
    "gen_ai_tool_name",
  ),
  claw_mcp_stdio_rejected_http_requests_total: counter("HTTP requests rejected before they became requests of MCP.", "code"),
  claw_mcp_stdio_http_responses_total: counter("HTTP responses; an event stream counts when it ends.", "status"),
  claw_mcp_stdio_http_readers_cut_off_total: counter("Connections closed because their client did not read."),
  claw_mcp_stdio_http_connections_dropped_total: counter("Connections closed because there were too many."),

  claw_mcp_stdio_requests_in_flight: gauge("Unanswered requests, held ones included.", "lane"),
  claw_mcp_stdio_requests_waiting: gauge("Held requests and notifications.", "lane"),
  claw_mcp_stdio_queued_bytes: gauge("Bytes that are queued, or not read by the server.", "lane"),
  claw_mcp_stdio_calls_suspended: gauge("Calls of sessions that wait for the answers of their clients."),
  claw_mcp_stdio_calls_parked: gauge("Calls of clients without a session that wait for their answers."),
  claw_mcp_stdio_parked_calls_expired_total: counter("Parked calls that ended because of PARK_TIMEOUT_MS."),
  claw_mcp_stdio_parked_calls_refused_total: counter("Rounds of questions refused because of a limit."),
  claw_mcp_stdio_questions_unattributed_total: counter("Questions refused because their call is unknown."),

  claw_mcp_stdio_server_ready: gauge("1 if the shared server is ready, else 0."),
  claw_mcp_stdio_server_state: gauge("1 for the present state of the shared server.", "state"),
  claw_mcp_stdio_server_generation: gauge("Number of the present run of the shared server, from 1."),
  claw_mcp_stdio_server_ready_time_seconds: gauge("Unix time at which the shared server became ready; absent while it is not."),
  claw_mcp_stdio_server_restarts_total: counter("Restarts of the shared server."),
  claw_mcp_stdio_server_exits_total: counter("Exits of servers by kind (docs/operations/restarts.md).", "kind"),
  claw_mcp_stdio_server_processes: gauge("Processes of servers, stopping ones included.", "lane"),
  claw_mcp_stdio_dropped_messages_total: counter("Discarded messages by kind (docs/operations/status.md).", "kind"),

  claw_mcp_stdio_sessions: gauge("Open sessions."),
  claw_mcp_stdio_streams: gauge("Connections with an open event stream."),
  claw_mcp_stdio_stateless_clients: gauge("Remembered clients without a session."),
  claw_mcp_stdio_stateless_subscriptions: gauge("Open subscriptions of clients without a session."),
  claw_mcp_stdio_stateless_requests_total: counter("Requests without a session."),

  claw_mcp_stdio_memory_budget_bytes: gauge("Limit of the memory for messages (MEMORY_BUDGET_BYTES)."),
  claw_mcp_stdio_memory_used_bytes: gauge("Memory for messages: bodies, requests, replay, unread, subscriptions, serverOutput.", "kind"),

  claw_mcp_stdio_invalid_arguments_total: counter("Calls whose arguments violated the schema."),
  claw_mcp_stdio_argument_checks_given_up_total: counter("Checks ended because of time or memory."),
  claw_mcp_stdio_truncated_results_total: counter("Results truncated to MAX_RESULT_BYTES."),
  claw_mcp_stdio_defects_total: counter("Bugs of the sidecar."),
};

export type MetricName = keyof typeof METRICS;
