import type Prometheus from "prom-client";
import { ERROR_CATALOG, type SidecarErrorCode } from "../mcp/errors.ts";
import type { Context } from "../context.ts";
import { MEMORY_KINDS } from "../memory.ts";
import { BOUNDS_SECONDS, EXIT_KINDS, type Sample } from "../observe/record.ts";
import { type MetricDefinition, type MetricName, METRICS } from "../observe/metrics.ts";
import { UPSTREAM_STATES } from "../process/port.ts";
import { laneLoads, type Status } from "./health.ts";
import { type Route, sendDefect } from "./response.ts";

const ERROR_CODES = Object.keys(ERROR_CATALOG) as SidecarErrorCode[];

/** The numbers of `/status` that have no label. One that does not exist at present is undefined. */
function numbersOf(status: Status) {
  const { state, generation, restarts, readyAt, lanes, sessions, openStreams, stateless, memory, counters } = status;
  const { requests, policy, http, defects } = counters;
  return {
    claw_mcp_stdio_server_ready: Number(state === "ready"),
    claw_mcp_stdio_server_generation: generation,
    claw_mcp_stdio_server_restarts_total: restarts,
    claw_mcp_stdio_server_ready_time_seconds: readyAt === null ? undefined : Date.parse(readyAt) / 1000,
    claw_mcp_stdio_calls_suspended: lanes.shared.suspended,
    claw_mcp_stdio_sessions: sessions,
    claw_mcp_stdio_streams: openStreams,
    claw_mcp_stdio_stateless_requests_total: stateless?.requests,
    claw_mcp_stdio_stateless_clients: stateless?.clients,
    claw_mcp_stdio_stateless_subscriptions: stateless?.subscriptions,
    claw_mcp_stdio_calls_parked: stateless?.asks?.parked.now,
    claw_mcp_stdio_parked_calls_expired_total: stateless?.asks?.parked.expired,
    claw_mcp_stdio_parked_calls_refused_total: stateless?.asks?.parked.refused,
    claw_mcp_stdio_questions_unattributed_total: stateless?.asks?.unattributed,
    claw_mcp_stdio_memory_budget_bytes: memory.limitBytes,
    claw_mcp_stdio_requests_accepted_total: requests.accepted,
    claw_mcp_stdio_requests_held_total: requests.held,
    claw_mcp_stdio_requests_repeated_total: requests.repeated,
    claw_mcp_stdio_http_readers_cut_off_total: http.readersCutOff,
    claw_mcp_stdio_http_connections_dropped_total: http.connectionsDropped,
    claw_mcp_stdio_invalid_arguments_total: policy.invalidArguments,
    claw_mcp_stdio_argument_checks_given_up_total: policy.argumentChecksGivenUp,
    claw_mcp_stdio_truncated_results_total: policy.truncatedResults,
    claw_mcp_stdio_defects_total: defects,
  } satisfies Partial<Record<MetricName, number | undefined>>;
}

/** Returns the samples of the present state and of the counters: the numbers of `/status`. */
function* stateSamples(status: Status): Generator<Sample> {
  const { version, state, memory, counters } = status;
  const { answers, dropped, byKey } = counters;
  yield { metric: "claw_mcp_stdio_build_info", labels: { version, node: process.version }, value: 1 };
  for (const [metric, value] of Object.entries(numbersOf(status))) if (value !== undefined) yield { metric: metric as MetricName, value };
  const states = UPSTREAM_STATES.map((each) => [each, Number(each === state)] as const);
  yield* labelled("claw_mcp_stdio_server_state", "state", states);
  const loads = Object.entries(laneLoads(status));
  const ofLanes = (key: keyof (typeof loads)[number][1]) => loads.map(([lane, load]) => [lane, load[key]] as const);
  yield* labelled("claw_mcp_stdio_requests_in_flight", "lane", ofLanes("requestsInFlight"));
  yield* labelled("claw_mcp_stdio_requests_waiting", "lane", ofLanes("waiting"));
  yield* labelled("claw_mcp_stdio_queued_bytes", "lane", ofLanes("queuedBytes"));
  yield* labelled("claw_mcp_stdio_server_processes", "lane", ofLanes("servers"));
  const memoryUsed = MEMORY_KINDS.map((kind) => [kind, memory[kind]] as const);
  yield* labelled("claw_mcp_stdio_memory_used_bytes", "kind", memoryUsed);
  yield* labelled("claw_mcp_stdio_requests_ended_total", "ending", [...Object.entries(answers), ...withZeros(ERROR_CODES, byKey.failures)]);
  yield* labelled("claw_mcp_stdio_requests_refused_total", "code", withZeros(ERROR_CODES, byKey.refusals));
  yield* labelled("claw_mcp_stdio_server_exits_total", "kind", withZeros(EXIT_KINDS, byKey.exits));
  yield* labelled("claw_mcp_stdio_http_responses_total", "status", byKey.statuses);
  yield* labelled("claw_mcp_stdio_dropped_messages_total", "kind", Object.entries(dropped));
}

/** A series that begins with 1 has no increase, so alerts would miss the first event. */
function withZeros<Key>(keys: readonly Key[], counts: ReadonlyMap<Key, number>): [key: Key, count: number][] {
  return keys.map((key) => [key, counts.get(key) ?? 0]);
}

function* labelled(metric: MetricName, label: string, counts: Iterable<readonly [key: string | number, count: number]>): Generator<Sample> {
  for (const [key, value] of counts) yield { metric, labels: { [label]: String(key) }, value };
}

/** Returns values in the form of prom-client. Prometheus takes an empty label for an absent one. */
function* valuesOf({ metric, labels: all = {}, value }: Sample): Generator<object> {
  const labels = Object.fromEntries(Object.entries(all).filter(([, text]) => text !== ""));
  if (typeof value === "number") {
    yield { labels, value };
    return;
  }
  for (const [index, bound] of BOUNDS_SECONDS.entries())
    yield { metricName: `${metric}_bucket`, labels: { ...labels, le: bound }, value: value.cumulative[index] ?? 0 };
  yield { metricName: `${metric}_bucket`, labels: { ...labels, le: "+Inf" }, value: value.count };
  yield { metricName: `${metric}_sum`, labels, value: value.sum };
  yield { metricName: `${metric}_count`, labels, value: value.count };
}

/** Gauges with the suffix of counters. Others have the same numbers by type. */
const MISNAMED = ["nodejs_active_handles_total", "nodejs_active_requests_total", "nodejs_active_resources_total"];

/**
 * Creates the writer of the text format of Prometheus, with metrics of the process: CPU, memory, garbage collection and the delay of the event
 * loop. prom-client renders; the sidecar keeps its own numbers, so that nothing of this is loaded before the first scrape.
 */
export function createRegistry(
  { Registry, collectDefaultMetrics }: typeof Prometheus,
  samplesOf: (name: MetricName) => readonly Sample[],
): Prometheus.Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  for (const name of Object.keys(METRICS) as MetricName[]) {
    const { type, help }: MetricDefinition = METRICS[name];
    const get = (): object => ({ name, type, help, values: samplesOf(name).values().flatMap(valuesOf).toArray() });
    // Its type wants the class of a metric, but it uses no more than these members.
    registry.registerMetric({ name, help, get, reset: () => undefined } as unknown as Parameters<Prometheus.Registry["registerMetric"]>[0]);
  }
  return registry;
}

/** A text is sent again until this many times its rendering time has passed. So rendering takes a tenth of the time at most. */
const REUSE_FACTOR = 10;

/** Creates the route of `/metrics`, in the text format of Prometheus (docs/METRICS.md). */
export function createMetricsRoute({ defects, nowMs, records }: Context, status: () => Status): Route {
  let samples: ReadonlyMap<MetricName, readonly Sample[]> = new Map();
  let registry: Prometheus.Registry | undefined;
  /** Responses share its bytes, so those that are not read take no more memory. */
  let rendering: Promise<{ readonly bytes: Buffer; readonly contentType: string }> | undefined;
  let usableUntilMs = Number.NEGATIVE_INFINITY;

  return (_request, response) => {
    if (rendering === undefined || nowMs() >= usableUntilMs) {
      // Until it is rendered, all requests wait for it.
      usableUntilMs = Number.POSITIVE_INFINITY;
      rendering = render();
      rendering.catch(() => (usableUntilMs = Number.NEGATIVE_INFINITY));
    }
    rendering
      .then(({ bytes, contentType }) => {
        if (response.headersSent || response.destroyed) return;
        response.writeHead(200, { "Content-Type": contentType, "Content-Length": bytes.length, "Cache-Control": "no-store" });
        response.end(bytes);
      })
      .catch((error: unknown) => defects.recover("metrics", error, () => sendDefect(response, false)));
  };

  async function render(): Promise<{ readonly bytes: Buffer; readonly contentType: string }> {
    // The default export, because the bundle has no other.
    registry ??= createRegistry((await import("prom-client")).default, (name) => samples.get(name) ?? []);
    const startedAtMs = nowMs();
    samples = Map.groupBy([...records.samples(), ...stateSamples(status())], ({ metric }) => metric);
    const bytes = Buffer.from(await registry.metrics());
    const renderedAtMs = nowMs();
    usableUntilMs = renderedAtMs + (renderedAtMs - startedAtMs) * REUSE_FACTOR;
    return { bytes, contentType: registry.contentType };
  }
}
