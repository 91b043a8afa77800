import { findPath, stringOf, textOf } from "../json/find.ts";
import { detached, skipValue, walkElements } from "../json/text.ts";
import { ERROR_CATALOG, JsonRpcErrorCode } from "../mcp/errors.ts";
import { LEGACY_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS } from "../mcp/versions.ts";
import type { RequestEnding } from "./counters.ts";
import type { Defects } from "./log.ts";
import type { ObservedRequest, RejectedRequest, RequestObserver } from "./record.ts";
import type { Redact } from "./redact.ts";

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
interface HistogramValue {
  readonly count: number;
  readonly sum: number;
  /** The number of observations up to each bound, in the order of the bounds. */
  readonly cumulative: readonly number[];
}

/** The upper bounds of the buckets in seconds, as OpenTelemetry's conventions for MCP advise. */
export const BOUNDS_SECONDS: readonly number[] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];

/** The distribution of durations. */
class Histogram {
  /** By bound. Durations above the last one count in `#count` only. */
  readonly #counts = new Float64Array(BOUNDS_SECONDS.length);
  #count = 0;
  #sumMs = 0;

  observe(durationMs: number): void {
    this.#count++;
    this.#sumMs += durationMs;
    for (let index = 0; index < BOUNDS_SECONDS.length; index++) {
      if (durationMs > (BOUNDS_SECONDS[index] ?? 0) * 1000) continue;
      this.#counts[index] = (this.#counts[index] ?? 0) + 1;
      return;
    }
  }

  get value(): HistogramValue {
    let total = 0;
    const cumulative = Array.from(this.#counts, (count) => (total += count));
    return { count: this.#count, sum: this.#sumMs / 1000, cumulative };
  }
}

/** The value of a label for everything that is not in its list. OpenTelemetry has this name for methods and errors. */
const OTHER = "_OTHER";
/** The name of all tools that are not listed. */
const OTHER_TOOL = "other";

/** The values themselves are returned: a text from a message would keep the whole message in memory. */
type Values = ReadonlyMap<string, string>;

function valuesOf(values: readonly string[]): Values {
  return new Map(values.map((value) => [value, value]));
}

/** The requests that clients may send, in all revisions and in the extension of tasks. */
const METHODS = valuesOf([
  "completion/complete",
  "initialize",
  "logging/setLevel",
  "ping",
  "prompts/get",
  "prompts/list",
  "resources/list",
  "resources/read",
  "resources/subscribe",
  "resources/templates/list",
  "resources/unsubscribe",
  "server/discover",
  "subscriptions/listen",
  "tasks/cancel",
  "tasks/get",
  "tasks/list",
  "tasks/result",
  "tasks/update",
  "tools/call",
  "tools/list",
]);
const VERSIONS = valuesOf([...LEGACY_PROTOCOL_VERSIONS, ...MODERN_PROTOCOL_VERSIONS]);
/** A resource is not found, a URL must be visited first, and a request was cancelled (MCP 2025-11-25, and JSON-RPC of language servers). */
const FURTHER_ERROR_CODES = [-32002, -32042, -32800];
const ERROR_CODES = valuesOf([...Object.values(JsonRpcErrorCode), ...FURTHER_ERROR_CODES].map(String));

function methodLabel(method: string): string {
  return METHODS.get(method) ?? OTHER;
}

/** @param version undefined without a known one. */
function versionLabel(version: string | undefined): string {
  return version === undefined ? "" : (VERSIONS.get(version) ?? OTHER);
}

/** @param codeText the JSON text of the code in an error of the server. */
function errorCodeLabel(codeText: string | undefined): string {
  return ERROR_CODES.get(codeText ?? "") ?? OTHER;
}

/** The names of tools that have series of their own. */
const MAX_TOOLS = 200;
const MAX_TOOL_NAME_LENGTH = 128;
/** The series of the duration of requests. Further combinations of labels share those without a tool, or else one for successes and one for failures. */
const MAX_SERIES = 500;
const MAX_SERIES_WITHOUT_TOOL = 100;
/** Longer texts are not searched. In UTF-16 units. */
const MAX_LIST_LENGTH = 1024 * 1024;
const MAX_ERROR_LENGTH = 64 * 1024;
const MAX_RESULT_LENGTH = 256 * 1024;
/** The pause after a list of tools without a new name. */
const LIST_PAUSE_MS = 10_000;
/** HTTP is the only transport of clients. */
const TRANSPORT = { network_transport: "tcp" };

interface RequestMetricsOptions {
  readonly nowMs: () => number;
  readonly defects: Pick<Defects, "recover">;
  /** Masks secrets. */
  readonly redact: Redact;
}

interface Series {
  readonly labels: Readonly<Record<string, string>>;
  readonly durations: Histogram;
}

/** A kind of requests: their labels, and their series as soon as there are any. */
interface Kind {
  readonly name: string;
  readonly toolName: string;
  readonly version: string;
  queue: Histogram | undefined;
  server: Histogram | undefined;
  success: Histogram | undefined;
}

/** The metrics of clients' requests and sessions: counters and histograms, which a scrape reads. */
export class RequestMetrics implements RequestObserver {
  readonly #nowMs: () => number;
  readonly #defects: Pick<Defects, "recover">;
  readonly #redact: Redact;
  /** Copies of the names, which keep no list in memory. */
  readonly #tools = new Map<string, string>();
  readonly #operations = new Map<string, Series>();
  readonly #sessions = new Map<string, Series>();
  readonly #rejected = new Map<string, number>();
  readonly #queue = new Map<string, Series>();
  readonly #server = new Map<string, Series>();
  #nextListAtMs = Number.NEGATIVE_INFINITY;
  #lastKind: Kind | undefined;

  constructor({ nowMs, defects, redact }: RequestMetricsOptions) {
    [this.#nowMs, this.#defects, this.#redact] = [nowMs, defects, redact];
  }

  ended(request: ObservedRequest, ending: RequestEnding, body: string | undefined): void {
    try {
      this.#count(request, ending, body);
    } catch (error) {
      // A defect here must not fail the request.
      this.#defects.recover("metrics", error);
    }
  }

  rejected({ code }: RejectedRequest): void {
    this.#rejected.set(code, (this.#rejected.get(code) ?? 0) + 1);
  }

  /** Counts the end of a session. */
  readonly sessionEnded = (protocolVersion: string, durationMs: number): void => {
    const version = versionLabel(protocolVersion);
    seriesOf(this.#sessions, version, () => ({ mcp_protocol_version: version, ...TRANSPORT })).durations.observe(durationMs);
  };

  *samples(): Generator<Sample> {
    yield* histograms("mcp_server_operation_duration_seconds", this.#operations);
    yield* histograms("mcp_server_session_duration_seconds", this.#sessions);
    yield* histograms("claw_mcp_stdio_request_queue_seconds", this.#queue);
    yield* histograms("claw_mcp_stdio_request_server_seconds", this.#server);
    // A series that begins with 1 has no increase.
    for (const code of Object.keys(ERROR_CATALOG))
      yield { metric: "claw_mcp_stdio_rejected_http_requests_total", labels: { code }, value: this.#rejected.get(code) ?? 0 };
  }

  #count(request: ObservedRequest, ending: RequestEnding, body: string | undefined): void {
    const { acceptedAtMs, sentAtMs } = request;
    const endedAtMs = this.#nowMs();
    // The sidecar answers some requests itself, without a queue.
    const isAnsweredHere = sentAtMs === undefined && (ending === "results" || ending === "errors");
    if (request.method === "tools/list" && ending === "results" && body !== undefined) this.#learnTools(body, endedAtMs);
    const kind = this.#kindOf(request);
    if (!isAnsweredHere) (kind.queue ??= this.#part(this.#queue, kind)).observe((sentAtMs ?? endedAtMs) - acceptedAtMs);
    if (sentAtMs !== undefined) (kind.server ??= this.#part(this.#server, kind)).observe(endedAtMs - sentAtMs);
    const errorType = errorTypeOf(request, ending, body);
    const durations = errorType === "" ? (kind.success ??= this.#operation(kind, "")) : this.#operation(kind, errorType);
    durations?.observe(endedAtMs - acceptedAtMs);
  }

  /** Returns the labels and series of a request. Most are like the last one. */
  #kindOf({ method, tool, revision }: ObservedRequest): Kind {
    const last = this.#lastKind;
    const toolName = tool ? (this.#tools.get(tool) ?? OTHER_TOOL) : "";
    // Labels are compared, not the texts of the last request: those would keep its body in memory.
    if (last?.name === method && last.toolName === toolName && last.version === (revision ?? "")) return last;
    const labels = { name: methodLabel(method), toolName, version: versionLabel(revision) };
    return (this.#lastKind = { ...labels, queue: undefined, server: undefined, success: undefined });
  }

  #operation({ name, toolName, version }: Kind, errorType: string): Histogram | undefined {
    const series =
      this.#series(MAX_SERIES, name, toolName, errorType, version) ??
      this.#series(MAX_SERIES + MAX_SERIES_WITHOUT_TOOL, name, toolName === "" ? "" : OTHER_TOOL, errorType, version) ??
      // A success must not count as a failure.
      this.#series(Number.POSITIVE_INFINITY, OTHER, OTHER_TOOL, errorType === "" ? "" : OTHER, OTHER);
    return series?.durations;
  }

  /** @returns undefined if there is no room for these labels. */
  #series(maxSeries: number, method: string, tool: string, errorType: string, version: string): Series | undefined {
    const key = `${method}\n${errorType}\n${version}\n${tool}`;
    const known = this.#operations.get(key);
    if (known !== undefined || this.#operations.size >= maxSeries) return known;
    return seriesOf(this.#operations, key, () => labelsOf(method, tool, errorType, version));
  }

  /** Returns the durations of a part of requests. Methods and tools are limited, so their series are. */
  #part(series: Map<string, Series>, { name, toolName }: Kind): Histogram {
    return seriesOf(series, `${name}\n${toolName}`, () => ({ mcp_method_name: name, gen_ai_tool_name: toolName })).durations;
  }

  /** Reads the names in a list of tools. Others have no series: a client may call any name. */
  #learnTools(body: string, nowMs: number): void {
    if (this.#tools.size >= MAX_TOOLS || nowMs < this.#nextListAtMs || body.length > MAX_LIST_LENGTH) return;
    const before = this.#tools.size;
    const tools = findPath(body, 0, ["result", "tools"]);
    if (tools === undefined || body[tools.start] !== "[") return;
    walkElements(body, tools.start, (start) => {
      const name = stringOf(body, findPath(body, start, ["name"]));
      // Two names that are not well-formed could be written alike.
      const isUsable = name !== undefined && name.length <= MAX_TOOL_NAME_LENGTH && name.isWellFormed() && this.#redact(name) === name;
      if (!isUsable || this.#tools.has(name) || this.#tools.size >= MAX_TOOLS) return skipValue(body, start);
      const copy = detached(name, body);
      this.#tools.set(copy, copy);
      return skipValue(body, start);
    });
    // The last tool may have a name now.
    this.#lastKind = undefined;
    // A further page follows at once.
    const isLast = findPath(body, 0, ["result", "nextCursor"]) === undefined;
    if (isLast && this.#tools.size === before) this.#nextListAtMs = nowMs + LIST_PAUSE_MS;
  }
}

/** Returns the value of `error_type`: empty for a success, or else the end of the request. */
function errorTypeOf({ method }: ObservedRequest, ending: RequestEnding, body = ""): string {
  if (ending === "errors")
    return errorCodeLabel(body.length > MAX_ERROR_LENGTH ? undefined : textOf(body, findPath(body, 0, ["error", "code"])));
  if (ending !== "results") return ending;
  return isToolError(method, body) ? "tool_error" : "";
}

/** True for a short result that the tool itself marks as an error. */
export function isToolError(method: string, body: string): boolean {
  const isShort = method === "tools/call" && body.length <= MAX_RESULT_LENGTH && body.includes('"isError"');
  return isShort && textOf(body, findPath(body, 0, ["result", "isError"])) === "true";
}

function labelsOf(method: string, tool: string, errorType: string, version: string): Readonly<Record<string, string>> {
  return {
    mcp_method_name: method,
    gen_ai_tool_name: tool,
    error_type: errorType,
    mcp_protocol_version: version,
    ...TRANSPORT,
  };
}

function seriesOf(series: Map<string, Series>, key: string, labels: () => Readonly<Record<string, string>>): Series {
  let each = series.get(key);
  if (each === undefined) series.set(key, (each = { labels: labels(), durations: new Histogram() }));
  return each;
}

function* histograms(metric: MetricName, series: ReadonlyMap<string, Series>): Generator<Sample> {
  for (const { labels, durations } of series.values()) yield { metric, labels, value: durations.value };
}
