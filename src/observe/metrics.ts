import { findPath, stringOf, textOf } from "../json/find.ts";
import { detached, skipValue, walkElements } from "../json/text.ts";
import { ERROR_CATALOG, JsonRpcErrorCode } from "../mcp/errors.ts";
import { LEGACY_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS } from "../mcp/message.ts";
import { MAX_ERROR_LENGTH, type ObservedRequest, type RejectedRequest, type RequestEnding, type RequestObserver } from "./record.ts";
import type { Defects } from "./log.ts";
import type { Redact } from "./redact.ts";

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
    "Time of a client's request, from its arrival until its response is complete. Refused requests are included.",
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

  claw_mcp_stdio_requests_accepted_total: counter(
    "Requests that were accepted from clients, without discoveries and subscriptions of clients without a session.",
  ),
  claw_mcp_stdio_requests_refused_total: counter(
    "Valid requests that were refused on arrival because of a limit or the state of the server.",
    "code",
  ),
  claw_mcp_stdio_requests_held_total: counter("Accepted requests that had to wait for the server."),
  claw_mcp_stdio_requests_repeated_total: counter("Accepted requests that were sent again after an exit of the server."),
  claw_mcp_stdio_requests_ended_total: counter(
    "Accepted requests by their end: results, errors, dismissed, unread, or the error code of the sidecar.",
    "ending",
  ),
  claw_mcp_stdio_request_queue_seconds: histogram(
    "Time from the arrival of a request until it is sent to the server for the first time, or fails without being sent.",
    "mcp_method_name",
    "gen_ai_tool_name",
  ),
  claw_mcp_stdio_request_server_seconds: histogram(
    "Time from the first sending of a request until its end, with all restarts, repetitions and questions to the client.",
    "mcp_method_name",
    "gen_ai_tool_name",
  ),
  claw_mcp_stdio_rejected_http_requests_total: counter("HTTP requests that were rejected before they became requests of MCP.", "code"),
  claw_mcp_stdio_http_responses_total: counter(
    "HTTP responses by status, probes and scrapes included. An event stream counts when it ends.",
    "status",
  ),
  claw_mcp_stdio_http_readers_cut_off_total: counter("Connections that were closed because their client did not read."),
  claw_mcp_stdio_http_connections_dropped_total: counter("Connections that were closed because there were too many."),

  claw_mcp_stdio_requests_in_flight: gauge("Requests that the servers of a lane have not answered, held ones included.", "lane"),
  claw_mcp_stdio_requests_waiting: gauge("Held requests and notifications.", "lane"),
  claw_mcp_stdio_queued_bytes: gauge("Bytes that are queued, or not yet read by the servers of a lane.", "lane"),
  claw_mcp_stdio_calls_suspended: gauge("Calls of sessions that wait for the answers of their clients."),
  claw_mcp_stdio_calls_parked: gauge("Calls of clients without a session that wait for their answers."),
  claw_mcp_stdio_parked_calls_expired_total: counter("Parked calls that ended because of PARK_TIMEOUT_MS."),
  claw_mcp_stdio_parked_calls_refused_total: counter("Rounds of questions that were refused because of a limit."),
  claw_mcp_stdio_questions_unattributed_total: counter("Questions of servers that were refused because their call could not be found out."),

  claw_mcp_stdio_server_ready: gauge("1 if the shared server is ready, else 0."),
  claw_mcp_stdio_server_state: gauge("1 for the present state of the shared server.", "state"),
  claw_mcp_stdio_server_generation: gauge("Number of the present run of the shared server, from 1."),
  claw_mcp_stdio_server_ready_time_seconds: gauge("Unix time at which the shared server became ready. Absent while it is not."),
  claw_mcp_stdio_server_restarts_total: counter("Restarts of the shared server."),
  claw_mcp_stdio_server_exits_total: counter("Exits of servers by kind (docs/operations/restarts.md).", "kind"),
  claw_mcp_stdio_server_processes: gauge("Processes of servers, those that are stopping included.", "lane"),
  claw_mcp_stdio_dropped_messages_total: counter("Messages that were discarded, by kind (docs/operations/status.md).", "kind"),

  claw_mcp_stdio_sessions: gauge("Open sessions."),
  claw_mcp_stdio_streams: gauge("Connections with an open event stream."),
  claw_mcp_stdio_stateless_clients: gauge("Clients without a session that are remembered."),
  claw_mcp_stdio_stateless_subscriptions: gauge("Open subscriptions of clients without a session."),
  claw_mcp_stdio_stateless_requests_total: counter("Requests without a session."),

  claw_mcp_stdio_memory_budget_bytes: gauge("Limit of the memory for messages (MEMORY_BUDGET_BYTES)."),
  claw_mcp_stdio_memory_used_bytes: gauge("Memory for messages: bodies, requests, replay, unread, subscriptions, serverOutput.", "kind"),

  claw_mcp_stdio_invalid_arguments_total: counter("Calls whose arguments violated the schema of their tool."),
  claw_mcp_stdio_argument_checks_given_up_total: counter("Checks of arguments that were ended because of time or memory."),
  claw_mcp_stdio_truncated_results_total: counter("Results that were truncated to MAX_RESULT_BYTES."),
  claw_mcp_stdio_defects_total: counter("Bugs of the sidecar. Each failed one request or one server at most."),
};

export type MetricName = keyof typeof METRICS;

export interface Sample {
  readonly metric: MetricName;
  readonly labels?: Histogram["labels"];
  readonly value: number | Histogram["value"];
}

/** The upper bounds of the buckets in seconds, as OpenTelemetry's conventions for MCP advise. */
export const BOUNDS_SECONDS: readonly number[] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];

/** The distribution of durations with these labels. */
class Histogram {
  readonly labels: Readonly<Record<string, string>>;
  /** By bound. Durations above the last one count in `#count` only. */
  readonly #counts = new Float64Array(BOUNDS_SECONDS.length);
  #count = 0;
  #sumMs = 0;

  constructor(labels: Histogram["labels"]) {
    this.labels = labels;
  }

  observe(durationMs: number): void {
    this.#count++;
    this.#sumMs += durationMs;
    for (let index = 0; index < BOUNDS_SECONDS.length; index++) {
      if (durationMs > (BOUNDS_SECONDS[index] ?? 0) * 1000) continue;
      this.#counts[index] = (this.#counts[index] ?? 0) + 1;
      return;
    }
  }

  /** The number of observations in all, and up to each bound, in the order of the bounds; and the sum of all in seconds. */
  get value(): { readonly count: number; readonly sum: number; readonly cumulative: readonly number[] } {
    let total = 0;
    const cumulative = Array.from(this.#counts, (count) => (total += count));
    return { count: this.#count, sum: this.#sumMs / 1000, cumulative };
  }
}

/** The value of a label for everything that is not in its list. OpenTelemetry has this name for methods and errors. */
const OTHER = "_OTHER";
/** The name of all tools that are not listed. */
const OTHER_TOOL = "other";

/** Returns known values by themselves. These are used as labels: a text from a message would keep the whole message in memory. */
function valuesOf(values: readonly string[]): ReadonlyMap<string, string> {
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

/** The names of tools that have series of their own. */
const MAX_TOOLS = 200;
const MAX_TOOL_NAME_LENGTH = 128;
/** The series of the duration of requests. Further combinations of labels share those without a tool, or else one for successes and one for failures. */
const MAX_SERIES = 500;
const MAX_SERIES_WITHOUT_TOOL = 100;
/** Longer texts are not searched. In UTF-16 units. */
const MAX_LIST_LENGTH = 1024 * 1024;
const MAX_RESULT_LENGTH = 256 * 1024;
/** The pause after a list of tools without a new name. */
const LIST_PAUSE_MS = 10_000;
/** HTTP is the only transport of clients. */
const TRANSPORT = { network_transport: "tcp" };

/** The metrics of clients' requests and sessions: counters and histograms, which a scrape reads. */
export class RequestMetrics implements RequestObserver {
  readonly #nowMs: () => number;
  readonly #defects: Defects;
  readonly #redact: Redact;
  /** Copies of the names, which keep no list in memory. */
  readonly #tools = new Map<string, string>();
  readonly #operations = new Map<string, Histogram>();
  readonly #sessions = new Map<string, Histogram>();
  readonly #rejected = new Map<string, number>();
  readonly #queue = new Map<string, Histogram>();
  readonly #server = new Map<string, Histogram>();
  #nextListAtMs = Number.NEGATIVE_INFINITY;
  /** The labels of the last request, and their series as soon as there are any: most requests are like the last one. */
  #lastKind:
    | {
        readonly name: string;
        readonly toolName: string;
        readonly version: string;
        queue: Histogram | undefined;
        server: Histogram | undefined;
        success: Histogram | undefined;
      }
    | undefined;

  /** @param redact masks secrets. */
  constructor(nowMs: () => number, defects: Defects, redact: Redact) {
    [this.#nowMs, this.#defects, this.#redact] = [nowMs, defects, redact];
  }

  ended(request: ObservedRequest, ending: RequestEnding, body: string | undefined): void {
    try {
      const { method, revision, acceptedAtMs, sentAtMs } = request;
      const endedAtMs = this.#nowMs();
      // The sidecar answers some requests itself, without a queue.
      const isAnsweredHere = sentAtMs === undefined && (ending === "results" || ending === "errors");
      if (method === "tools/list" && ending === "results" && body !== undefined) this.#learnTools(body, endedAtMs);
      const toolName = request.tool ? (this.#tools.get(request.tool) ?? OTHER_TOOL) : "";
      let kind = this.#lastKind;
      // Labels are compared, not the texts of the last request: those would keep its body in memory.
      if (kind?.name !== method || kind.toolName !== toolName || kind.version !== (revision ?? "")) {
        const version = revision === undefined ? "" : (VERSIONS.get(revision) ?? OTHER);
        kind = { name: METHODS.get(method) ?? OTHER, toolName, version, queue: undefined, server: undefined, success: undefined };
        this.#lastKind = kind;
      }
      const { name, version } = kind;
      if (!isAnsweredHere) (kind.queue ??= this.#part(this.#queue, name, toolName)).observe((sentAtMs ?? endedAtMs) - acceptedAtMs);
      if (sentAtMs !== undefined) (kind.server ??= this.#part(this.#server, name, toolName)).observe(endedAtMs - sentAtMs);
      const errorType = errorTypeOf(method, ending, body);
      const success = errorType === "" ? (kind.success ??= this.#operation(name, toolName, "", version)) : undefined;
      (success ?? this.#operation(name, toolName, errorType, version))?.observe(endedAtMs - acceptedAtMs);
    } catch (error) {
      // A defect here must not fail the request.
      this.#defects.recover("metrics", error);
    }
  }

  rejected({ code }: RejectedRequest): void {
    this.#rejected.set(code, (this.#rejected.get(code) ?? 0) + 1);
  }

  readonly sessionEnded = (protocolVersion: string, durationMs: number): void => {
    const version = VERSIONS.get(protocolVersion) ?? OTHER;
    seriesOf(this.#sessions, version, () => ({ mcp_protocol_version: version, ...TRANSPORT })).observe(durationMs);
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

  #operation(method: string, tool: string, errorType: string, version: string): Histogram | undefined {
    return (
      this.#series(MAX_SERIES, method, tool, errorType, version) ??
      this.#series(MAX_SERIES + MAX_SERIES_WITHOUT_TOOL, method, tool === "" ? "" : OTHER_TOOL, errorType, version) ??
      // A success must not count as a failure.
      this.#series(Number.POSITIVE_INFINITY, OTHER, OTHER_TOOL, errorType === "" ? "" : OTHER, OTHER)
    );
  }

  /** @returns undefined if there is no room for these labels. */
  #series(maxSeries: number, method: string, tool: string, errorType: string, version: string): Histogram | undefined {
    const key = `${method}\n${errorType}\n${version}\n${tool}`;
    const known = this.#operations.get(key);
    if (known !== undefined || this.#operations.size >= maxSeries) return known;
    return seriesOf(this.#operations, key, () => ({
      mcp_method_name: method,
      gen_ai_tool_name: tool,
      error_type: errorType,
      mcp_protocol_version: version,
      ...TRANSPORT,
    }));
  }

  /** Returns the durations of a part of requests. Methods and tools are limited, so their series are. */
  #part(series: Map<string, Histogram>, method: string, tool: string): Histogram {
    return seriesOf(series, `${method}\n${tool}`, () => ({ mcp_method_name: method, gen_ai_tool_name: tool }));
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
      if (isUsable && !this.#tools.has(name) && this.#tools.size < MAX_TOOLS) {
        const copy = detached(name, body);
        this.#tools.set(copy, copy);
      }
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
function errorTypeOf(method: string, ending: RequestEnding, body = ""): string {
  if (ending === "errors") {
    const codeText = body.length > MAX_ERROR_LENGTH ? undefined : textOf(body, findPath(body, 0, ["error", "code"]));
    return ERROR_CODES.get(codeText ?? "") ?? OTHER;
  }
  if (ending !== "results") return ending;
  return isToolError(method, body) ? "tool_error" : "";
}

/** True for a short result that the tool itself marks as an error. */
export function isToolError(method: string, body: string): boolean {
  const isShort = method === "tools/call" && body.length <= MAX_RESULT_LENGTH && body.includes('"isError"');
  return isShort && textOf(body, findPath(body, 0, ["result", "isError"])) === "true";
}

function seriesOf(series: Map<string, Histogram>, key: string, labels: () => Histogram["labels"]): Histogram {
  let each = series.get(key);
  if (each === undefined) series.set(key, (each = new Histogram(labels())));
  return each;
}

function* histograms(metric: MetricName, series: ReadonlyMap<string, Histogram>): Generator<Sample> {
  for (const { labels, value } of series.values()) yield { metric, labels, value };
}
