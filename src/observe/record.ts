import { findPath, stringOf, textOf } from "../json/read.ts";
import { copied, detached, walk } from "../json/text.ts";
import { JsonRpcErrorCode, type SidecarErrorCode } from "../mcp/errors.ts";
import { LEGACY_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS, type RequestMessage, Slot } from "../mcp/message.ts";
import type { Defects } from "./log.ts";
import type { Redact } from "./redact.ts";

/** docs/operations/restarts.md explains each. */
export const EXIT_KINDS = [
  "clean-exit",
  "crash",
  "signal",
  "out-of-memory",
  "spawn-failed",
  "handshake-refused",
  "handshake-timeout",
  "pipe-closed",
  "hung",
  "tools-not-listed",
  "defect",
  "stopped",
] as const;
export type ExitKind = (typeof EXIT_KINDS)[number];

class Tally<Key> extends Map<Key, number> {
  count(key: Key): void {
    this.set(key, (this.get(key) ?? 0) + 1);
  }
}

/** A code if the sidecar answered with an error. */
export type RequestEnding = keyof Counters["answers"] | SidecarErrorCode;

/**
 * Events since the start, of all lanes (docs/operations/status.md). Plain numbers, because they change with every message.
 *
 * A valid request is accepted or rejected. An accepted one ends once: `accepted` is the sum of `answers`, `failures`, and the requests in flight, queued or suspended.
 * Requests of the sidecar count only if they are subscriptions or log levels of clients without a session.
 */
export class Counters {
  readonly requests = {
    /** Sent, queued, or answered by the sidecar itself. */
    accepted: 0,
    held: 0,
    repeated: 0,
  };
  readonly answers = {
    results: 0,
    /** Errors of the server, or of the sidecar for reasons other than a failure. */
    errors: 0,
    dismissed: 0,
    unread: 0,
  };
  readonly dropped = {
    clientNotifications: 0,
    lateAnswers: 0,
    unknownAnswers: 0,
    notifications: 0,
    requests: 0,
    questions: 0,
    overlongLines: 0,
    noiseLines: 0,
  };
  readonly policy = {
    /** Calls with them, sent or not. */
    invalidArguments: 0,
    argumentChecksGivenUp: 0,
    truncatedResults: 0,
  };
  readonly http = {
    readersCutOff: 0,
    connectionsDropped: 0,
  };
  /** Questions of servers that could not be assigned to a call. */
  unattributed = 0;
  defects = 0;
  readonly byKey = {
    failures: new Tally<SidecarErrorCode>(),
    refusals: new Tally<SidecarErrorCode>(),
    exits: new Tally<ExitKind>(),
    statuses: new Tally<number>(),
  };

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

/** Before it had a reply. */
export interface RejectedRequest {
  readonly code: SidecarErrorCode;
  readonly httpStatus: number;
  /** Found before the body was read, so it cannot quote the body. */
  readonly reason: string | undefined;
  readonly principal: string;
  readonly sessionId: string | undefined;
  /** As declared; undefined if it is unknown. */
  readonly requestBytes: number | undefined;
}

/** A request that was rejected before it was read has neither name nor duration. */
export interface EndedRequest {
  readonly method?: string;
  readonly tool?: string | undefined;
  readonly acceptedAtMs?: number;
  readonly endedAtMs: number;
  readonly ending: RequestEnding | "tool_error";
  readonly isError: boolean;
}

/** From the reading of a client's request to the end of its reply. It keeps no text of the request. */
export interface RequestRecord extends EndedRequest {
  method: string;
  tool: string | undefined;
  /** The name of the client's token, or without tokens its network address. */
  readonly principal: string;
  readonly acceptedAtMs: number;
  readonly requestBytes: number;
  sessionId: string | undefined;
  revision: string | undefined;
  /** Undefined if it was not passed to the server. */
  sentAtMs: number | undefined;
  /** Undefined if the client has disconnected before the response began. */
  httpStatus: number | undefined;
  /** True for an error of the sidecar to a request that was not sent. */
  isRejected: boolean;
  endedAtMs: number;
  ending: EndedRequest["ending"];
  isError: boolean;
}

export function beginRecord(
  { method, text, outline }: RequestMessage,
  holder: { readonly name: string } | string,
  acceptedAtMs: number,
  session?: { readonly id: string; readonly protocolVersion: string },
): RequestRecord {
  return {
    method,
    tool: method === "tools/call" ? outline.stringAt(Slot.toolName) : undefined,
    principal: typeof holder === "string" ? holder : holder.name,
    acceptedAtMs,
    requestBytes: Buffer.byteLength(text),
    sessionId: session?.id,
    revision: session?.protocolVersion,
    sentAtMs: undefined,
    httpStatus: undefined,
    isRejected: false,
    endedAtMs: Number.NaN,
    ending: "unread",
    isError: false,
  };
}

export function setSession(record: RequestRecord | undefined, session: { readonly id: string; readonly protocolVersion: string }): void {
  if (record !== undefined) [record.sessionId, record.revision] = [session.id, session.protocolVersion];
}

/** @param items the newest of all `count`. @returns those after the first `seenCount`. */
export function itemsAfter<Item>(items: readonly Item[], count: number, seenCount: number): readonly Item[] {
  return items.slice(Math.max(0, items.length - (count - seenCount)));
}

export class RequestHistory {
  /** Oldest first. */
  readonly requests: EndedRequest[] = [];
  count = 0;
  /** Those with requests, oldest first. Their numbers are since the epoch. */
  readonly seconds: { readonly number: number; requests: number; errors: number; longestMs: number }[] = [];
  readonly #maxRequests: number;
  readonly #maxSeconds: number;

  constructor(maxRequests: number, maxSeconds: number) {
    [this.#maxRequests, this.#maxSeconds] = [maxRequests, maxSeconds];
  }

  add(request: EndedRequest): void {
    const { acceptedAtMs, endedAtMs, isError } = request;
    const number = Math.floor((performance.timeOrigin + endedAtMs) / 1000);
    let second = this.seconds.at(-1);
    if (second?.number !== number) {
      this.seconds.push((second = { number, requests: 0, errors: 0, longestMs: 0 }));
      while ((this.seconds[0]?.number ?? number) < number - this.#maxSeconds) this.seconds.shift();
    }
    second.requests++;
    if (isError) second.errors++;
    this.count++;
    if (this.requests.push(request) > this.#maxRequests) this.requests.shift();
    if (acceptedAtMs !== undefined) second.longestMs = Math.max(second.longestMs, endedAtMs - acceptedAtMs);
  }
}

/** In seconds, as OpenTelemetry's conventions for MCP advise. */
export const BOUNDS_SECONDS: readonly number[] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];

class Histogram {
  readonly labels: readonly string[];
  /** The last one has the durations above the last bound. */
  readonly counts = new Float64Array(BOUNDS_SECONDS.length + 1);
  sumMs = 0;

  constructor(labels: readonly string[]) {
    this.labels = labels;
  }

  observe(durationMs: number): void {
    this.sumMs += durationMs;
    let index = 0;
    while (durationMs > (BOUNDS_SECONDS[index] ?? Infinity) * 1000) index++;
    this.counts[index] = (this.counts[index] ?? 0) + 1;
  }
}

/** By labels. Only the name of a tool may have a line break, so no two keys are equal. */
export class Histograms extends Map<string, Histogram> {
  /** @returns undefined if there are too many others. */
  find(labels: readonly string[], maxCount: number): Histogram | undefined {
    return this.get(labels.join("\n")) ?? (this.size < maxCount ? this.of(labels) : undefined);
  }

  of(labels: readonly string[]): Histogram {
    const key = labels.join("\n");
    let found = this.get(key);
    if (found === undefined) this.set(key, (found = new Histogram(labels)));
    return found;
  }
}

/** OpenTelemetry's name for methods and errors that are not in the list. */
const OTHER = "_OTHER";
const OTHER_TOOL = "other";

/** Labels are known values: a text from a message would keep the whole message in memory. */
function valuesOf(values: readonly string[]): ReadonlyMap<string, string> {
  return new Map(values.map((value) => [value, value]));
}

/** In all revisions and in the extension of tasks. */
const METHODS: ReadonlySet<string> = new Set([
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
/** Resource not found, a URL to visit first, and a cancelled request (MCP 2025-11-25, and JSON-RPC of language servers). */
const FURTHER_ERROR_CODES = [-32002, -32042, -32800];
const ERROR_CODES = valuesOf([...Object.values(JsonRpcErrorCode), ...FURTHER_ERROR_CODES].map(String));

const MAX_NAMES = 200;
const MAX_TOOLS = 200;
const MAX_TOOL_NAME_LENGTH = 128;
/** Further combinations share those without a tool, or else one series for successes and one for failures. */
const MAX_SERIES = 500;
const MAX_SERIES_WITHOUT_TOOL = 100;
/** Longer texts are not searched. In UTF-16 units. */
const MAX_LIST_LENGTH = 1024 * 1024;
const MAX_RESULT_LENGTH = 256 * 1024;
/** After a list of tools without a new name. */
const LIST_PAUSE_MS = 10_000;
const TRANSPORT = "tcp";

/** Shared by requests of one method, tool and revision. */
interface RequestKind {
  readonly method: string;
  readonly tool: string | undefined;
  readonly revision: string | undefined;
  readonly name: string;
  readonly toolName: string;
  readonly version: string;
  queue: Histogram | undefined;
  server: Histogram | undefined;
  success: Histogram | undefined;
}

/** Records the end of each request once, for the counters, and if it is a client's, for the metrics, the page and the log. */
export class RequestRecords {
  /** Undefined without a page. */
  history: RequestHistory | undefined;
  /** @param body the JSON text of the response; undefined without one. */
  onSuccess: ((request: RequestRecord, body: string | undefined) => void) | undefined;
  onFailure: ((request: RequestRecord, body: string | undefined) => void) | undefined;
  onRejected: ((request: RejectedRequest) => void) | undefined;
  readonly operations = new Histograms();
  readonly sessions = new Histograms();
  readonly queue = new Histograms();
  readonly server = new Histograms();
  readonly rejections = new Tally<SidecarErrorCode>();
  readonly #counters: Counters;
  readonly #nowMs: () => number;
  readonly #defects: Defects;
  readonly #redact: Redact;
  readonly #hasMetrics: boolean;
  /** Copies of the names of requests: a slice would keep its request in memory. */
  readonly #names = new Map<string, string>();
  readonly #tools = new Set<string>();
  #nextListAtMs = -Infinity;
  /** The kind of the last request: most are like it. */
  #lastKind: RequestKind | undefined;

  constructor(counters: Counters, nowMs: () => number, defects: Defects, redact: Redact, hasMetrics: boolean) {
    [this.#counters, this.#nowMs, this.#defects, this.#redact, this.#hasMetrics] = [counters, nowMs, defects, redact, hasMetrics];
  }

  /** A defect here must not fail the request. @param request undefined for one of the sidecar itself. */
  ended(request: RequestRecord | undefined, isAccepted: boolean, ending: RequestEnding, body?: string): void {
    const isFailure = ending !== "results" && ending !== "dismissed" && ending !== "unread";
    const { answers, byKey } = this.#counters;
    if (isAccepted) {
      if (!isFailure || ending === "errors") answers[ending]++;
      else byKey.failures.count(ending);
    }
    if (request === undefined) return;
    try {
      let kind = this.#lastKind;
      if (kind?.method !== request.method || kind.tool !== request.tool || kind.revision !== request.revision) {
        this.#lastKind = kind = this.#kindOf(request);
      }
      request.method = kind.method;
      request.tool = kind.tool;
      request.endedAtMs = this.#nowMs();
      const isToolFailure = ending === "results" && kind.method === "tools/call" && isToolError(body);
      request.ending = isToolFailure ? "tool_error" : ending;
      request.isError = isFailure || isToolFailure;
      if (this.#hasMetrics) this.#observe(request, kind, body);
      this.history?.add(request);
      if (isFailure) this.onFailure?.(request, body);
      else this.onSuccess?.(request, body);
    } catch (error) {
      this.#defects.recover("request record", error);
    }
  }

  rejected(request: RejectedRequest): void {
    const { code } = request;
    this.rejections.count(code);
    this.history?.add({ endedAtMs: this.#nowMs(), ending: code, isError: true });
    this.#defects.guard("request record", () => this.onRejected?.(request));
  }

  #kindOf({ method, tool, revision }: RequestRecord): RequestKind {
    const kept = { method: this.#keptName(method), tool: tool && this.#keptName(tool), revision };
    const name = METHODS.has(method) ? kept.method : OTHER;
    const toolName = kept.tool && (this.#tools.has(kept.tool) ? kept.tool : OTHER_TOOL);
    const version = revision && (VERSIONS.get(revision) ?? OTHER);
    return { ...kept, name, toolName: toolName ?? "", version: version ?? "", queue: undefined, server: undefined, success: undefined };
  }

  #observe({ acceptedAtMs, sentAtMs, endedAtMs, ending }: RequestRecord, kind: RequestKind, body: string | undefined): void {
    if (kind.method === "tools/list" && ending === "results" && body !== undefined) this.#learnTools(body, endedAtMs);
    // The sidecar answers some requests itself, without a queue.
    const isAnsweredHere = sentAtMs === undefined && (ending === "results" || ending === "errors");
    const { name, toolName, version } = kind;
    if (!isAnsweredHere) (kind.queue ??= this.queue.of([name, toolName])).observe((sentAtMs ?? endedAtMs) - acceptedAtMs);
    if (sentAtMs !== undefined) (kind.server ??= this.server.of([name, toolName])).observe(endedAtMs - sentAtMs);
    const errorType = ending === "results" ? "" : ending === "errors" ? errorCodeOf(body) : ending;
    const success = errorType === "" ? (kind.success ??= this.#operation(name, toolName, "", version)) : undefined;
    (success ?? this.#operation(name, toolName, errorType, version)).observe(endedAtMs - acceptedAtMs);
  }

  #keptName(name: string): string {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    const copy = copied(name);
    if (this.#names.size < MAX_NAMES) this.#names.set(copy, copy);
    return copy;
  }

  sessionEnded(protocolVersion: string, durationMs: number): void {
    if (!this.#hasMetrics) return;
    const version = VERSIONS.get(protocolVersion) ?? OTHER;
    this.sessions.of([version, TRANSPORT]).observe(durationMs);
  }

  #operation(method: string, tool: string, errorType: string, version: string): Histogram {
    return (
      this.operations.find([method, tool, errorType, version, TRANSPORT], MAX_SERIES) ??
      this.operations.find([method, tool && OTHER_TOOL, errorType, version, TRANSPORT], MAX_SERIES + MAX_SERIES_WITHOUT_TOOL) ??
      // A success must not count as a failure.
      this.operations.of([OTHER, OTHER_TOOL, errorType && OTHER, OTHER, TRANSPORT])
    );
  }

  /** Others have no series: a client may call any name. */
  #learnTools(body: string, nowMs: number): void {
    if (this.#tools.size >= MAX_TOOLS || nowMs < this.#nextListAtMs || body.length > MAX_LIST_LENGTH) return;
    const before = this.#tools.size;
    const tools = findPath(body, 0, ["result", "tools"]);
    if (tools === undefined || body[tools.start] !== "[") return;
    walk(body, tools.start, (start) => {
      const name = stringOf(body, findPath(body, start, ["name"]));
      // Two names that are not well-formed could be written alike.
      const isUsable = name !== undefined && name.length <= MAX_TOOL_NAME_LENGTH && name.isWellFormed() && this.#redact(name) === name;
      if (isUsable && !this.#tools.has(name) && this.#tools.size < MAX_TOOLS) this.#tools.add(detached(name, body));
    });
    // The last tool may have a name now.
    this.#lastKind = undefined;
    // A further page follows at once.
    const isLast = findPath(body, 0, ["result", "nextCursor"]) === undefined;
    if (isLast && this.#tools.size === before) this.#nextListAtMs = nowMs + LIST_PAUSE_MS;
  }
}

function errorCodeOf(body = ""): string {
  const codeText = body.length > MAX_ERROR_LENGTH ? undefined : textOf(body, findPath(body, 0, ["error", "code"]));
  return ERROR_CODES.get(codeText ?? "") ?? OTHER;
}

function isToolError(body = ""): boolean {
  return (
    body.length <= MAX_RESULT_LENGTH && body.includes('"isError"') && textOf(body, findPath(body, 0, ["result", "isError"])) === "true"
  );
}

export function rounded(ms: number): number {
  return Math.round(ms * 10) / 10;
}

export function isErrorResponse(body: string): boolean {
  return body.length <= MAX_ERROR_LENGTH && body.includes('"error"') && findPath(body, 0, ["error"]) !== undefined;
}
