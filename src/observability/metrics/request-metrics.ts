import { findPath, stringOf, textOf } from "../../json/find.ts";
import { detached } from "../../json/strings.ts";
import { skipValue, walkElements } from "../../json/walk.ts";
import { ERROR_CATALOG } from "../../error-catalog/error-catalog.ts";
import type { RequestEnding } from "../counters.ts";
import type { Defects } from "../defects.ts";
import type { Redact } from "../redact.ts";
import type { ObservedRequest, RejectedRequest, RequestObserver } from "../request-observer.ts";
import type { MetricName, Sample } from "./definitions.ts";
import { Histogram } from "./histogram.ts";
import { errorCodeLabel, methodLabel, OTHER, OTHER_TOOL, versionLabel } from "./label-values.ts";

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

export interface RequestMetricsOptions {
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
