import { ERROR_CATALOG, type SidecarErrorCode } from "../mcp/errors.ts";
import type { Context } from "../context.ts";
import { MEMORY_KINDS } from "../memory.ts";
import { type Counters, EXIT_KINDS, type Sample } from "../observe/record.ts";
import type { MetricName } from "../observe/metrics.ts";
import { UPSTREAM_STATES, type UpstreamStatus } from "../process/port.ts";
import type { Exposition } from "./exposition.ts";
import { laneLoads, type Status } from "./health.ts";
import { discardBody, type Route, sendDefect } from "./response.ts";

const ERROR_CODES = Object.keys(ERROR_CATALOG) as SidecarErrorCode[];
/** Returns the samples of the present state and of the counters: the numbers of `/status`. */
function* stateSamples(status: Status): Generator<Sample> {
  const { version, memory, sessions, openStreams, counters, stateless } = status;
  yield { metric: "claw_mcp_stdio_build_info", labels: { version, node: process.version }, value: 1 };
  yield* serverSamples(status.upstream);
  yield* laneSamples(status);
  yield { metric: "claw_mcp_stdio_sessions", value: sessions };
  yield { metric: "claw_mcp_stdio_streams", value: openStreams };
  if (stateless !== undefined) yield* statelessSamples(stateless);
  yield { metric: "claw_mcp_stdio_memory_budget_bytes", value: memory.limitBytes };
  for (const kind of MEMORY_KINDS) yield { metric: "claw_mcp_stdio_memory_used_bytes", labels: { kind }, value: memory[kind] };
  yield* counterSamples(counters);
}

function* serverSamples({ state, generation, restarts, readyAt }: UpstreamStatus): Generator<Sample> {
  yield { metric: "claw_mcp_stdio_server_ready", value: Number(state === "ready") };
  for (const each of UPSTREAM_STATES)
    yield { metric: "claw_mcp_stdio_server_state", labels: { state: each }, value: Number(state === each) };
  yield { metric: "claw_mcp_stdio_server_generation", value: generation };
  yield { metric: "claw_mcp_stdio_server_restarts_total", value: restarts };
  if (state === "ready" && readyAt !== undefined)
    yield { metric: "claw_mcp_stdio_server_ready_time_seconds", value: readyAt.getTime() / 1000 };
}

function* laneSamples(status: Status): Generator<Sample> {
  for (const [lane, load] of Object.entries(laneLoads(status))) {
    const labels = { lane };
    yield { metric: "claw_mcp_stdio_requests_in_flight", labels, value: load.requestsInFlight };
    yield { metric: "claw_mcp_stdio_requests_waiting", labels, value: load.waiting };
    yield { metric: "claw_mcp_stdio_queued_bytes", labels, value: load.queuedBytes };
    yield { metric: "claw_mcp_stdio_server_processes", labels, value: load.servers };
  }
  yield { metric: "claw_mcp_stdio_calls_suspended", value: status.lanes.shared.suspended };
}

function* statelessSamples({ requests, clients, subscriptions, asks }: NonNullable<Status["stateless"]>): Generator<Sample> {
  yield { metric: "claw_mcp_stdio_stateless_requests_total", value: requests };
  yield { metric: "claw_mcp_stdio_stateless_clients", value: clients };
  yield { metric: "claw_mcp_stdio_stateless_subscriptions", value: subscriptions };
  if (asks === undefined) return;
  yield { metric: "claw_mcp_stdio_calls_parked", value: asks.parked.now };
  yield { metric: "claw_mcp_stdio_parked_calls_expired_total", value: asks.parked.expired };
  yield { metric: "claw_mcp_stdio_parked_calls_refused_total", value: asks.parked.refused };
  yield { metric: "claw_mcp_stdio_questions_unattributed_total", value: asks.unattributed };
}

function* counterSamples({ requests, answers, dropped, policy, http, defects, byKey }: Counters): Generator<Sample> {
  yield { metric: "claw_mcp_stdio_requests_accepted_total", value: requests.accepted };
  yield { metric: "claw_mcp_stdio_requests_held_total", value: requests.held };
  yield { metric: "claw_mcp_stdio_requests_repeated_total", value: requests.repeated };
  yield* labelled("claw_mcp_stdio_requests_ended_total", "ending", [...Object.entries(answers), ...withZeros(ERROR_CODES, byKey.failures)]);
  yield* labelled("claw_mcp_stdio_requests_refused_total", "code", withZeros(ERROR_CODES, byKey.refusals));
  yield* labelled("claw_mcp_stdio_server_exits_total", "kind", withZeros(EXIT_KINDS, byKey.exits));
  yield* labelled("claw_mcp_stdio_http_responses_total", "status", byKey.statuses);
  yield* labelled("claw_mcp_stdio_dropped_messages_total", "kind", Object.entries(dropped));
  yield { metric: "claw_mcp_stdio_http_readers_cut_off_total", value: http.readersCutOff };
  yield { metric: "claw_mcp_stdio_http_connections_dropped_total", value: http.connectionsDropped };
  yield { metric: "claw_mcp_stdio_invalid_arguments_total", value: policy.invalidArguments };
  yield { metric: "claw_mcp_stdio_argument_checks_given_up_total", value: policy.argumentChecksGivenUp };
  yield { metric: "claw_mcp_stdio_truncated_results_total", value: policy.truncatedResults };
  yield { metric: "claw_mcp_stdio_defects_total", value: defects };
}

/** A series that begins with 1 has no increase, so alerts would miss the first event. */
function withZeros<Key>(keys: readonly Key[], counts: ReadonlyMap<Key, number>): [key: Key, count: number][] {
  return keys.map((key) => [key, counts.get(key) ?? 0]);
}

function* labelled(metric: MetricName, label: string, counts: Iterable<readonly [key: string | number, count: number]>): Generator<Sample> {
  for (const [key, value] of counts) yield { metric, labels: { [label]: String(key) }, value };
}

/** A text is sent again until this many times its rendering time has passed. So rendering takes a tenth of the time at most. */
const REUSE_FACTOR = 10;

/** Creates the route of `/metrics`, in the text format of Prometheus (docs/METRICS.md). */
export function createMetricsRoute({ defects, nowMs, records }: Context, status: () => Status): Route {
  let exposition: Exposition | undefined;
  /** Responses share its bytes, so those that are not read take no more memory. */
  let rendering: Promise<{ readonly bytes: Buffer; readonly contentType: string }> | undefined;
  let usableUntilMs = Number.NEGATIVE_INFINITY;

  return (request, response) => {
    discardBody(request);
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
    exposition ??= new (await import("./exposition.ts")).Exposition();
    const startedAtMs = nowMs();
    const bytes = Buffer.from(await exposition.text([...records.samples(), ...stateSamples(status())]));
    const renderedAtMs = nowMs();
    usableUntilMs = renderedAtMs + (renderedAtMs - startedAtMs) * REUSE_FACTOR;
    return { bytes, contentType: exposition.contentType };
  }
}
