import type Prometheus from "prom-client";
import { ERROR_CATALOG, type SidecarErrorCode } from "../mcp/errors.ts";
import type { Context } from "../context.ts";
import { MEMORY_KINDS } from "../memory.ts";
import { BOUNDS_SECONDS, EXIT_KINDS, Histograms, type RequestRecords } from "../observe/record.ts";
import { UPSTREAM_STATES } from "../process/port.ts";
import { laneLoads, type Status } from "./health.ts";
import { type Route, sendDefect } from "./response.ts";

const ERROR_CODES = Object.keys(ERROR_CATALOG) as SidecarErrorCode[];

type Series = readonly [value: number, ...labels: (string | number)[]];

/** Name and labels are a contract with dashboards and alerts (docs/METRICS.md). */
export interface MetricDefinition {
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  /** Undefined for a number that does not exist at present. */
  readonly read: (status: Status, records: RequestRecords) => number | undefined | readonly Series[] | Histograms;
  readonly labels: readonly string[];
}

function ofType(type: MetricDefinition["type"]) {
  return (help: string, read: MetricDefinition["read"], ...labels: readonly string[]): MetricDefinition => ({ type, help, read, labels });
}

const [counter, gauge, histogram] = [ofType("counter"), ofType("gauge"), ofType("histogram")];

/** A series that begins with 1 has no increase, so alerts would miss the first event. */
function withZeros<Key extends string>(keys: readonly Key[], counts: ReadonlyMap<Key, number>): Series[] {
  return keys.map((key) => [counts.get(key) ?? 0, key]);
}

function byName(counts: Readonly<Record<string, number>>): Series[] {
  return Object.entries(counts).map(([name, count]) => [count, name]);
}

function ofLanes(key: "requestsInFlight" | "waiting" | "queuedBytes" | "servers"): MetricDefinition["read"] {
  return (status) => Object.entries(laneLoads(status)).map(([lane, load]) => [load[key], lane]);
}

/**
 * All metrics, besides those of the process. The first two follow OpenTelemetry's conventions for MCP, in the form of Prometheus
 * (https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md).
 */
export const METRICS: Readonly<Record<string, MetricDefinition>> = {
  mcp_server_operation_duration_seconds: histogram(
    "Time of a client's request, from its arrival until its response is complete, refused ones included.",
    (_, { operations }) => operations,
    "mcp_method_name",
    "gen_ai_tool_name",
    "error_type",
    "mcp_protocol_version",
    "network_transport",
  ),
  mcp_server_session_duration_seconds: histogram(
    "Time from the start of a session to its end.",
    (_, { sessions }) => sessions,
    "mcp_protocol_version",
    "network_transport",
  ),
  claw_mcp_stdio_build_info: gauge(
    "Always 1. The labels name the versions.",
    ({ version }) => [[1, version, process.version]],
    "version",
    "node",
  ),
  claw_mcp_stdio_requests_accepted_total: counter(
    "Accepted requests, without discoveries and subscriptions of clients without a session.",
    ({ counters }) => counters.requests.accepted,
  ),
  claw_mcp_stdio_requests_refused_total: counter(
    "Valid requests that were refused on arrival.",
    ({ counters }) => withZeros(ERROR_CODES, counters.byKey.refusals),
    "code",
  ),
  claw_mcp_stdio_requests_held_total: counter(
    "Accepted requests that had to wait for the server.",
    ({ counters }) => counters.requests.held,
  ),
  claw_mcp_stdio_requests_repeated_total: counter(
    "Accepted requests that were sent again after an exit.",
    ({ counters }) => counters.requests.repeated,
  ),
  claw_mcp_stdio_requests_ended_total: counter(
    "Accepted requests by their end: results, errors, dismissed, unread, or an error code of the sidecar.",
    ({ counters }) => [...byName(counters.answers), ...withZeros(ERROR_CODES, counters.byKey.failures)],
    "ending",
  ),
  claw_mcp_stdio_request_queue_seconds: histogram(
    "Time from the arrival of a request until it is first sent, or fails unsent.",
    (_, { queue }) => queue,
    "mcp_method_name",
    "gen_ai_tool_name",
  ),
  claw_mcp_stdio_request_server_seconds: histogram(
    "Time from the first sending of a request until its end.",
    (_, { server }) => server,
    "mcp_method_name",
    "gen_ai_tool_name",
  ),
  claw_mcp_stdio_rejected_http_requests_total: counter(
    "HTTP requests rejected before they became requests of MCP.",
    (_, { rejections }) => withZeros(ERROR_CODES, rejections),
    "code",
  ),
  claw_mcp_stdio_http_responses_total: counter(
    "HTTP responses; an event stream counts when it ends.",
    ({ counters }) => [...counters.byKey.statuses].map(([status, count]) => [count, status]),
    "status",
  ),
  claw_mcp_stdio_http_readers_cut_off_total: counter(
    "Connections closed because their client did not read.",
    ({ counters }) => counters.http.readersCutOff,
  ),
  claw_mcp_stdio_http_connections_dropped_total: counter(
    "Connections closed because there were too many.",
    ({ counters }) => counters.http.connectionsDropped,
  ),
  claw_mcp_stdio_requests_in_flight: gauge("Unanswered requests, held ones included.", ofLanes("requestsInFlight"), "lane"),
  claw_mcp_stdio_requests_waiting: gauge("Held requests and notifications.", ofLanes("waiting"), "lane"),
  claw_mcp_stdio_queued_bytes: gauge("Bytes that are queued, or not read by the server.", ofLanes("queuedBytes"), "lane"),
  claw_mcp_stdio_calls_suspended: gauge(
    "Calls of sessions that wait for the answers of their clients.",
    ({ lanes }) => lanes.shared.suspended,
  ),
  claw_mcp_stdio_calls_parked: gauge(
    "Calls of clients without a session that wait for their answers.",
    ({ stateless }) => stateless?.asks?.parked.now,
  ),
  claw_mcp_stdio_parked_calls_expired_total: counter(
    "Parked calls that ended because of PARK_TIMEOUT_MS.",
    ({ stateless }) => stateless?.asks?.parked.expired,
  ),
  claw_mcp_stdio_parked_calls_refused_total: counter(
    "Rounds of questions refused because of a limit.",
    ({ stateless }) => stateless?.asks?.parked.refused,
  ),
  claw_mcp_stdio_questions_unattributed_total: counter(
    "Questions refused because their call is unknown.",
    ({ stateless }) => stateless?.asks?.unattributed,
  ),
  claw_mcp_stdio_server_ready: gauge("1 if the shared server is ready, else 0.", ({ state }) => Number(state === "ready")),
  claw_mcp_stdio_server_state: gauge(
    "1 for the present state of the shared server.",
    ({ state }) => UPSTREAM_STATES.map((each) => [Number(each === state), each]),
    "state",
  ),
  claw_mcp_stdio_server_generation: gauge("Number of the present run of the shared server, from 1.", ({ generation }) => generation),
  claw_mcp_stdio_server_ready_time_seconds: gauge(
    "Unix time at which the shared server became ready; absent while it is not.",
    ({ readyAt }) => (readyAt === null ? undefined : Date.parse(readyAt) / 1000),
  ),
  claw_mcp_stdio_server_restarts_total: counter("Restarts of the shared server.", ({ restarts }) => restarts),
  claw_mcp_stdio_server_exits_total: counter(
    "Exits of servers by kind (docs/operations/restarts.md).",
    ({ counters }) => withZeros(EXIT_KINDS, counters.byKey.exits),
    "kind",
  ),
  claw_mcp_stdio_server_processes: gauge("Processes of servers, stopping ones included.", ofLanes("servers"), "lane"),
  claw_mcp_stdio_dropped_messages_total: counter(
    "Discarded messages by kind (docs/operations/status.md).",
    ({ counters }) => byName(counters.dropped),
    "kind",
  ),
  claw_mcp_stdio_sessions: gauge("Open sessions.", ({ sessions }) => sessions),
  claw_mcp_stdio_streams: gauge("Connections with an open event stream.", ({ openStreams }) => openStreams),
  claw_mcp_stdio_stateless_clients: gauge("Remembered clients without a session.", ({ stateless }) => stateless?.clients),
  claw_mcp_stdio_stateless_subscriptions: gauge(
    "Open subscriptions of clients without a session.",
    ({ stateless }) => stateless?.subscriptions,
  ),
  claw_mcp_stdio_stateless_requests_total: counter("Requests without a session.", ({ stateless }) => stateless?.requests),
  claw_mcp_stdio_memory_budget_bytes: gauge("Limit of the memory for messages (MEMORY_BUDGET_BYTES).", ({ memory }) => memory.limitBytes),
  claw_mcp_stdio_memory_used_bytes: gauge(
    "Memory for messages: bodies, requests, replay, unread, subscriptions, serverOutput.",
    ({ memory }) => MEMORY_KINDS.map((kind) => [memory[kind], kind]),
    "kind",
  ),
  claw_mcp_stdio_invalid_arguments_total: counter(
    "Calls whose arguments violated the schema.",
    ({ counters }) => counters.policy.invalidArguments,
  ),
  claw_mcp_stdio_argument_checks_given_up_total: counter(
    "Checks ended because of time or memory.",
    ({ counters }) => counters.policy.argumentChecksGivenUp,
  ),
  claw_mcp_stdio_truncated_results_total: counter(
    "Results truncated to MAX_RESULT_BYTES.",
    ({ counters }) => counters.policy.truncatedResults,
  ),
  claw_mcp_stdio_defects_total: counter("Bugs of the sidecar.", ({ counters }) => counters.defects),
};

/** In the form of prom-client. Prometheus takes an empty label for an absent one. */
function* valuesOf(name: string, { read, labels }: MetricDefinition, status: Status, records: RequestRecords): Generator<object> {
  const named = (texts: readonly (string | number)[]): Readonly<Record<string, string>> =>
    Object.fromEntries(labels.map((label, index) => [label, String(texts[index])] as const).filter(([, text]) => text !== ""));
  const found = read(status, records);
  if (typeof found === "number") yield { labels: {}, value: found };
  if (typeof found !== "object") return;
  if (!(found instanceof Histograms)) {
    for (const [value, ...texts] of found) yield { labels: named(texts), value };
    return;
  }
  for (const { labels: texts, counts, sumMs } of found.values()) {
    const own = named(texts);
    let count = 0;
    for (const [index, inBucket] of counts.entries()) {
      count += inBucket;
      yield { metricName: `${name}_bucket`, labels: { ...own, le: BOUNDS_SECONDS[index] ?? "+Inf" }, value: count };
    }
    yield { metricName: `${name}_sum`, labels: own, value: sumMs / 1000 };
    yield { metricName: `${name}_count`, labels: own, value: count };
  }
}

/** Gauges with the suffix of counters. Others have the same numbers by type. */
const MISNAMED = ["nodejs_active_handles_total", "nodejs_active_requests_total", "nodejs_active_resources_total"];

/** Adds the metrics of the process. Nothing of this is loaded before the first scrape. */
export function createRegistry(
  { Registry, collectDefaultMetrics }: typeof Prometheus,
  readValues: (name: string, metric: MetricDefinition) => Iterable<object>,
): Prometheus.Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  for (const [name, metric] of Object.entries(METRICS)) {
    const { type, help } = metric;
    const get = (): object => ({ name, type, help, values: [...readValues(name, metric)] });
    // Its type wants the class of a metric, but it uses only these members.
    registry.registerMetric({ name, help, get, reset: () => undefined } as unknown as Parameters<Prometheus.Registry["registerMetric"]>[0]);
  }
  return registry;
}

/** A text is sent again for this many times its rendering time, so rendering takes a tenth of the time at most. */
const REUSE_FACTOR = 10;

export function createMetricsRoute({ defects, nowMs, records }: Context, status: () => Status): Route {
  /** Read once for each scrape. */
  let current = status();
  let registry: Prometheus.Registry | undefined;
  /** Responses share its bytes, so unread ones take no more memory. */
  let rendering: ReturnType<typeof render> | undefined;
  let usableUntilMs = -Infinity;

  return (_request, response) => {
    if (rendering === undefined || nowMs() >= usableUntilMs) {
      // Until it is rendered, all requests wait for it.
      usableUntilMs = Infinity;
      rendering = render();
      rendering.catch(() => (usableUntilMs = -Infinity));
    }
    rendering
      .then(({ bytes, contentType }) => {
        if (response.headersSent || response.destroyed) return;
        response.writeHead(200, { "Content-Type": contentType, "Content-Length": bytes.length, "Cache-Control": "no-store" });
        response.end(bytes);
      })
      .catch((error: unknown) => defects.recover("metrics", error, () => sendDefect(response, false)));
  };

  async function render() {
    // The default export, because the bundle has no other.
    registry ??= createRegistry((await import("prom-client")).default, (name, metric) => valuesOf(name, metric, current, records));
    const startedAtMs = nowMs();
    current = status();
    const bytes = Buffer.from(await registry.metrics());
    const renderedAtMs = nowMs();
    usableUntilMs = renderedAtMs + (renderedAtMs - startedAtMs) * REUSE_FACTOR;
    return { bytes, contentType: registry.contentType };
  }
}
