import { findMembers, findPath, stringOf, textOf } from "../json/find.ts";
import { copied, detached, walk } from "../json/text.ts";
import { ERROR_CATALOG, JsonRpcErrorCode, type SidecarErrorCode } from "../mcp/errors.ts";
import { type RequestMessage, Slot } from "../mcp/message.ts";
import { LEGACY_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS } from "../mcp/message.ts";
import type { Defects } from "./log.ts";
import { type MetricName, METRICS } from "./metrics.ts";
import type { Redact } from "./redact.ts";

/** The causes of a generation's exit. */
export const EXIT_KINDS = [
  /** It exited with code 0, by itself. */
  "clean-exit",
  /** It exited with any other code. */
  "crash",
  "signal",
  /** The kernel killed it for lack of memory. */
  "out-of-memory",
  "spawn-failed",
  "handshake-refused",
  "handshake-timeout",
  /** It closed its stdin or stdout but kept running. */
  "pipe-closed",
  "hung",
  /** It did not list its tools, which the tool policy needs. */
  "tools-not-listed",
  /** The sidecar failed to handle its output. */
  "defect",
  /** The sidecar terminated it, because the sidecar stopped or the session of a private server ended. */
  "stopped",
] as const;
export type ExitKind = (typeof EXIT_KINDS)[number];

/** A number of events for each key. */
class Tally<Key> extends Map<Key, number> {
  count(key: Key): void {
    this.set(key, (this.get(key) ?? 0) + 1);
  }
}

/** The end of an accepted request; a code if the sidecar answered it with an error. */
export type RequestEnding = keyof Counters["answers"] | SidecarErrorCode;

/**
 * Counts of events since the start, for all lanes together. They are plain numbers, because they change with every message.
 *
 * A valid request of an existing session, or an `initialize`, is either accepted or rejected. An accepted one ends exactly once: `accepted`
 * is the sum of all `answers`, all `failures`, and the requests in flight, queued or suspended. Those of the sidecar itself do not count,
 * except for the subscriptions and log levels that it sends for clients without a session.
 */
export class Counters {
  readonly requests = {
    /** Accepted requests of clients: sent to the server, queued for it, or answered by the sidecar itself. */
    accepted: 0,
    /** Accepted requests that had to wait, because the server was not ready or had MAX_IN_FLIGHT requests. */
    held: 0,
    /** Accepted requests that were sent again after the server had exited. */
    repeated: 0,
  };
  readonly answers = {
    /** Results of the server, or of the sidecar itself. */
    results: 0,
    /** JSON-RPC errors of the server, or of the sidecar for reasons other than a failure. */
    errors: 0,
    /** Cancelled by the client, which then gets no response. */
    dismissed: 0,
    /** The client has disconnected and cannot resume. */
    unread: 0,
  };
  /** Discarded output of servers, and discarded notifications of clients that were already acknowledged. */
  readonly dropped = {
    /** Notifications of clients for a server that was not ready in time. */
    clientNotifications: 0,
    /** Responses to requests that had timed out or were cancelled. */
    lateAnswers: 0,
    /** Responses to requests that were never sent or already answered. */
    unknownAnswers: 0,
    /** Notifications without a known recipient. */
    notifications: 0,
    /** Requests of a server that does not read the responses. */
    requests: 0,
    questions: 0,
    /** Lines longer than MAX_LINE_BYTES. */
    overlongLines: 0,
    /** Lines that are not JSON-RPC. */
    noiseLines: 0,
  };
  /** Actions of the tool policy other than rejections. */
  readonly policy = {
    /** Calls whose arguments violated the tool's schema, sent or not. */
    invalidArguments: 0,
    /** Argument checks that exceeded a limit of time or memory, or failed. */
    argumentChecksGivenUp: 0,
    /** Results truncated to MAX_RESULT_BYTES. */
    truncatedResults: 0,
  };
  readonly http = {
    /** Connections closed because the client did not read. */
    readersCutOff: 0,
    /** Connections closed because there were too many. */
    connectionsDropped: 0,
  };
  /** Defects of the sidecar, each of which failed at most one reply or one server. */
  defects = 0;
  readonly byKey = {
    /** Accepted requests that ended with an error of the sidecar, by code. */
    failures: new Tally<SidecarErrorCode>(),
    /** Rejected requests, by code. */
    refusals: new Tally<SidecarErrorCode>(),
    exits: new Tally<ExitKind>(),
    /** HTTP responses. */
    statuses: new Tally<number>(),
  };

  /** Returns the counters in the form of `/status`. */
  toJSON(): object {
    const { requests, answers, dropped, policy, http, defects, byKey } = this;
    return {
      requests: { ...requests, refused: Object.fromEntries(byKey.refusals) },
      answers: { ...answers, failures: Object.fromEntries(byKey.failures) },
      exits: Object.fromEntries(byKey.exits),
      dropped,
      policy,
      http: { ...http, responses: Object.fromEntries(byKey.statuses) },
      defects,
    };
  }
}

/** Longer texts are not searched for an error. In UTF-16 units. */
export const MAX_ERROR_LENGTH = 64 * 1024;

/** A request that was rejected before it had a reply. */
export interface RejectedRequest {
  readonly code: SidecarErrorCode;
  readonly httpStatus: number;
  /** The message of an error that was found before the body was read, so it cannot quote the body. */
  readonly reason: string | undefined;
  readonly principal: string;
  /** The session id that the request names, valid or not. */
  readonly sessionId: string | undefined;
  /** The declared size of the body; undefined if it is unknown. */
  readonly requestBytes: number | undefined;
}

/** A request that has ended, as the page shows it. One that was rejected before it was read has neither name nor duration. */
export interface EndedRequest {
  readonly method?: string;
  readonly tool?: string | undefined;
  readonly acceptedAtMs?: number;
  readonly endedAtMs: number;
  readonly ending: RequestEnding | "tool_error";
}

/** The HTTP request of a client's request. `holder` is the network address of a client without a principal. */
interface HttpSource {
  readonly principal: { readonly name: string } | undefined;
  readonly holder: object | string;
  readonly acceptedAtMs: number;
}

/** A client's request, from its reading to the end of its reply. It keeps no text of the request. */
export class RequestRecord implements EndedRequest {
  method: string;
  /** The name of the tool, for a `tools/call`. */
  tool: string | undefined;
  /** The name of the token of the client, or without tokens its network address. */
  readonly principal: string;
  readonly acceptedAtMs: number;
  readonly requestBytes: number;
  /** Undefined without a session. */
  sessionId: string | undefined;
  /** The protocol revision; undefined until it is known. */
  revision: string | undefined;
  /** The time at which it was passed to the server for the first time; undefined if it was not. */
  sentAtMs: number | undefined;
  /** Undefined if the client has disconnected before the response began. */
  httpStatus: number | undefined;
  /** True for an error of the sidecar to a request that was not sent. */
  isRejected = false;
  endedAtMs = Number.NaN;
  ending: EndedRequest["ending"] = "unread";

  /** @param session undefined without one, or before it is opened. */
  constructor(
    { method, text, outline }: RequestMessage,
    { principal, holder, acceptedAtMs }: HttpSource,
    session?: { readonly id: string; readonly protocolVersion: string },
  ) {
    this.sessionId = session?.id;
    this.revision = session?.protocolVersion;
    this.method = method;
    this.tool = method === "tools/call" ? outline.stringAt(Slot.toolName) : undefined;
    this.principal = principal?.name ?? (typeof holder === "string" ? holder : "unknown");
    this.acceptedAtMs = acceptedAtMs;
    this.requestBytes = Buffer.byteLength(text);
  }

  setSession({ id, protocolVersion }: { readonly id: string; readonly protocolVersion: string }): void {
    this.sessionId = id;
    this.revision = protocolVersion;
  }
}

/** The upper bounds of the buckets in seconds, as OpenTelemetry's conventions for MCP advise. */
export const BOUNDS_SECONDS: readonly number[] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];

/** A distribution of durations. */
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

  /** The number of observations in all, and up to each bound, in the order of the bounds; and the sum of all in seconds. */
  get value(): { readonly count: number; readonly sum: number; readonly cumulative: readonly number[] } {
    let total = 0;
    const cumulative = Array.from(this.#counts, (count) => (total += count));
    return { count: this.#count, sum: this.#sumMs / 1000, cumulative };
  }
}

export interface Sample {
  readonly metric: MetricName;
  readonly labels?: Readonly<Record<string, string>>;
  readonly value: number | Histogram["value"];
}

/** The distributions of a metric, by the values of its labels. */
class Distributions {
  readonly #metric: MetricName;
  readonly #byLabels = new Map<string, { readonly values: readonly string[]; readonly histogram: Histogram }>();

  constructor(metric: MetricName) {
    this.#metric = metric;
  }

  /** @param values in the order of METRICS. @returns undefined if there are too many others. */
  find(values: readonly string[], maxCount: number): Histogram | undefined {
    // Only the name of a tool may have a line break, so no two keys are equal.
    const known = this.#byLabels.get(values.join("\n"));
    return known?.histogram ?? (this.#byLabels.size < maxCount ? this.of(values) : undefined);
  }

  of(values: readonly string[]): Histogram {
    const key = values.join("\n");
    let found = this.#byLabels.get(key);
    if (found === undefined) this.#byLabels.set(key, (found = { values, histogram: new Histogram() }));
    return found.histogram;
  }

  *samples(): Generator<Sample> {
    const { labels } = METRICS[this.#metric];
    for (const { values, histogram } of this.#byLabels.values())
      yield {
        metric: this.#metric,
        labels: Object.fromEntries(labels.map((label, index) => [label, values[index] ?? ""])),
        value: histogram.value,
      };
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

/** The names of methods and tools that are kept. */
const MAX_NAMES = 200;
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
const TRANSPORT = "tcp";

/** Records the end of each client's request once: for the metrics, the page and the log. */
export class RequestRecords {
  /** Called at the end of each request, and for each one that was rejected before it was read; undefined without a page. */
  onEnded: ((request: EndedRequest) => void) | undefined;
  /** Called at the end of each request that the log shows. @param body the JSON text of the response; undefined without one. */
  onSuccess: ((request: RequestRecord, body: string | undefined) => void) | undefined;
  onFailure: ((request: RequestRecord, body: string | undefined) => void) | undefined;
  /** Called for each HTTP request that was rejected before it had a reply. */
  onRejected: ((request: RejectedRequest) => void) | undefined;
  readonly #nowMs: () => number;
  readonly #defects: Defects;
  readonly #redact: Redact;
  readonly #hasMetrics: boolean;
  /** Copies of the names of requests: a slice would keep its request in memory. */
  readonly #names = new Map<string, string>();
  /** Copies of the names, which keep no list in memory. */
  readonly #tools = new Map<string, string>();
  readonly #operations = new Distributions("mcp_server_operation_duration_seconds");
  readonly #sessions = new Distributions("mcp_server_session_duration_seconds");
  readonly #queue = new Distributions("claw_mcp_stdio_request_queue_seconds");
  readonly #server = new Distributions("claw_mcp_stdio_request_server_seconds");
  readonly #rejected = new Tally<SidecarErrorCode>();
  #nextListAtMs = Number.NEGATIVE_INFINITY;
  /** The labels of the last request, and their series as soon as there are any: most requests are like the last one. */
  #lastKind:
    | {
        readonly method: string;
        readonly revision: string | undefined;
        readonly name: string;
        readonly toolName: string;
        readonly version: string;
        queue: Histogram | undefined;
        server: Histogram | undefined;
        success: Histogram | undefined;
      }
    | undefined;

  /** @param redact masks secrets. @param hasMetrics false if METRICS is off. */
  constructor(nowMs: () => number, defects: Defects, redact: Redact, hasMetrics: boolean) {
    [this.#nowMs, this.#defects, this.#redact, this.#hasMetrics] = [nowMs, defects, redact, hasMetrics];
  }

  /** Must be called once for each request. A defect here must not fail it. @param body the JSON text of the response; undefined without one. */
  ended(request: RequestRecord, ending: RequestEnding, body: string | undefined): void {
    try {
      const { method, tool } = request;
      request.method = this.#names.get(method) ?? this.#keepName(method);
      if (tool !== undefined) request.tool = this.#names.get(tool) ?? this.#keepName(tool);
      request.endedAtMs = this.#nowMs();
      request.ending = ending === "results" && method === "tools/call" && isToolError(body) ? "tool_error" : ending;
      if (this.#hasMetrics) this.#observe(request, body);
      this.onEnded?.(request);
      if (ending === "results" || ending === "dismissed" || ending === "unread") this.onSuccess?.(request, body);
      else this.onFailure?.(request, body);
    } catch (error) {
      this.#defects.recover("request record", error);
    }
  }

  /** Must be called for each HTTP request that was rejected before it had a reply. */
  rejected(request: RejectedRequest): void {
    const { code } = request;
    this.#rejected.count(code);
    this.onEnded?.({ endedAtMs: this.#nowMs(), ending: code });
    this.#defects.guard("request record", () => this.onRejected?.(request));
  }

  #observe({ method, tool, revision, acceptedAtMs, sentAtMs, endedAtMs, ending }: RequestRecord, body: string | undefined): void {
    // The sidecar answers some requests itself, without a queue.
    const isAnsweredHere = sentAtMs === undefined && (ending === "results" || ending === "errors");
    if (method === "tools/list" && ending === "results" && body !== undefined) this.#learnTools(body, endedAtMs);
    const toolName = tool ? (this.#tools.get(tool) ?? OTHER_TOOL) : "";
    let kind = this.#lastKind;
    if (kind?.method !== method || kind.toolName !== toolName || kind.revision !== revision) {
      const version = revision === undefined ? "" : (VERSIONS.get(revision) ?? OTHER);
      const name = METHODS.get(method) ?? OTHER;
      kind = { method, revision, name, toolName, version, queue: undefined, server: undefined, success: undefined };
      this.#lastKind = kind;
    }
    const { name, version } = kind;
    if (!isAnsweredHere) (kind.queue ??= this.#queue.of([name, toolName])).observe((sentAtMs ?? endedAtMs) - acceptedAtMs);
    if (sentAtMs !== undefined) (kind.server ??= this.#server.of([name, toolName])).observe(endedAtMs - sentAtMs);
    const errorType = ending === "results" ? "" : ending === "errors" ? errorCodeOf(body) : ending;
    const success = errorType === "" ? (kind.success ??= this.#operation(name, toolName, "", version)) : undefined;
    (success ?? this.#operation(name, toolName, errorType, version)).observe(endedAtMs - acceptedAtMs);
  }

  /** Returns a copy of a name. Most requests have one of a few. */
  #keepName(name: string): string {
    const copy = copied(name);
    if (this.#names.size < MAX_NAMES) this.#names.set(copy, copy);
    return copy;
  }

  sessionEnded(protocolVersion: string, durationMs: number): void {
    if (!this.#hasMetrics) return;
    const version = VERSIONS.get(protocolVersion) ?? OTHER;
    this.#sessions.of([version, TRANSPORT]).observe(durationMs);
  }

  *samples(): Generator<Sample> {
    for (const each of [this.#operations, this.#sessions, this.#queue, this.#server]) yield* each.samples();
    // A series that begins with 1 has no increase.
    for (const code of Object.keys(ERROR_CATALOG) as SidecarErrorCode[])
      yield { metric: "claw_mcp_stdio_rejected_http_requests_total", labels: { code }, value: this.#rejected.get(code) ?? 0 };
  }

  #operation(method: string, tool: string, errorType: string, version: string): Histogram {
    return (
      this.#operations.find([method, tool, errorType, version, TRANSPORT], MAX_SERIES) ??
      this.#operations.find([method, tool && OTHER_TOOL, errorType, version, TRANSPORT], MAX_SERIES + MAX_SERIES_WITHOUT_TOOL) ??
      // A success must not count as a failure.
      this.#operations.of([OTHER, OTHER_TOOL, errorType && OTHER, OTHER, TRANSPORT])
    );
  }

  /** Reads the names in a list of tools. Others have no series: a client may call any name. */
  #learnTools(body: string, nowMs: number): void {
    if (this.#tools.size >= MAX_TOOLS || nowMs < this.#nextListAtMs || body.length > MAX_LIST_LENGTH) return;
    const before = this.#tools.size;
    const tools = findPath(body, 0, ["result", "tools"]);
    if (tools === undefined || body[tools.start] !== "[") return;
    walk(body, tools.start, (start) => {
      const name = stringOf(body, findPath(body, start, ["name"]));
      // Two names that are not well-formed could be written alike.
      const isUsable = name !== undefined && name.length <= MAX_TOOL_NAME_LENGTH && name.isWellFormed() && this.#redact(name) === name;
      if (isUsable && !this.#tools.has(name) && this.#tools.size < MAX_TOOLS) {
        const copy = detached(name, body);
        this.#tools.set(copy, copy);
      }
    });
    // The last tool may have a name now.
    this.#lastKind = undefined;
    // A further page follows at once.
    const isLast = findPath(body, 0, ["result", "nextCursor"]) === undefined;
    if (isLast && this.#tools.size === before) this.#nextListAtMs = nowMs + LIST_PAUSE_MS;
  }
}

/** Returns the code of an error as text, if it is known. */
function errorCodeOf(body = ""): string {
  const codeText = body.length > MAX_ERROR_LENGTH ? undefined : textOf(body, findPath(body, 0, ["error", "code"]));
  return ERROR_CODES.get(codeText ?? "") ?? OTHER;
}

/** True for a short result that the tool itself marks as an error. */
function isToolError(body = ""): boolean {
  return (
    body.length <= MAX_RESULT_LENGTH && body.includes('"isError"') && textOf(body, findPath(body, 0, ["result", "isError"])) === "true"
  );
}

/** Returns a duration for people, to a tenth of a millisecond. */
export function rounded(ms: number): number {
  return Math.round(ms * 10) / 10;
}

/** True for a JSON-RPC error. */
export function isErrorResponse(body: string): boolean {
  return body.length <= MAX_ERROR_LENGTH && body.includes('"error"') && findMembers(body, 0, ["error"]).spans[0] !== undefined;
}
