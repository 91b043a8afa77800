import { hash } from "node:crypto";
import { shorten } from "../json/text.ts";
import { ERROR_CATALOG, JsonRpcErrorCode, type SidecarErrorCode } from "../mcp/errors.ts";
import type { RequestEnding } from "../observe/counters.ts";
import type { Defects, Log, RequestLogMode } from "../observe/log.ts";
import type { ObservedRequest, RejectedRequest, RequestObserver } from "../observe/record.ts";
import { DeadlineSweep, RateLimit } from "../timers.ts";

/** The lines of each kind per minute, and at once. A flood of one kind does not suppress the others. */
const LINES_PER_MINUTE = {
  /** Requests without a valid token. Anybody who reaches the port can cause them. */
  unauthorized: 60,
  /** Other requests that were rejected before they had an exchange, though the server and the sidecar are well. */
  rejected: 60,
  /** Requests that the server or the sidecar has failed. */
  failed: 300,
  /** Other errors. */
  errors: 300,
  /** All other requests. */
  ended: 6000,
} as const;
type LineKind = keyof typeof LINES_PER_MINUTE;

/** The time from the first suppressed line to the report. */
const REPORT_AFTER_MS = 10_000;
const MAX_REASON_LENGTH = 200;
/** Of a SHA-256 in hexadecimal. */
const SESSION_HASH_LENGTH = 12;

export interface RequestLogOptions {
  readonly mode: Exclude<RequestLogMode, "off">;
  readonly log: Log;
  readonly defects: Pick<Defects, "guard">;
  readonly nowMs: () => number;
}

/** The log of requests: a line for each one that ends, or for each error, without arguments and results. */
export class RequestLog implements RequestObserver {
  readonly #options: RequestLogOptions;
  readonly #limits: Readonly<Record<LineKind, RateLimit>>;
  readonly #report: DeadlineSweep;
  #suppressed = 0;
  #hasSuppressedFailures = false;

  constructor(options: RequestLogOptions) {
    this.#options = options;
    const limit = (kind: LineKind): RateLimit => new RateLimit(LINES_PER_MINUTE[kind]);
    this.#limits = {
      unauthorized: limit("unauthorized"),
      rejected: limit("rejected"),
      failed: limit("failed"),
      errors: limit("errors"),
      ended: limit("ended"),
    };
    this.#report = new DeadlineSweep(options.nowMs, options.defects, () => this.#reportSuppressed());
  }

  ended(request: ObservedRequest, ending: RequestEnding, body: string | undefined): void {
    const kind = kindOf(ending);
    if (kind === "ended" && this.#options.mode === "errors") return;
    // A defect here must not fail the request.
    this.#options.defects.guard("request log", () => this.#logEnded(kind, request, ending, body));
  }

  rejected(request: RejectedRequest): void {
    this.#options.defects.guard("request log", () => this.#logRejected(request));
  }

  /** Reports the lines that were suppressed since the last report. */
  close(): void {
    this.#report.close();
    this.#reportSuppressed();
  }

  #logEnded(kind: LineKind, request: ObservedRequest, ending: RequestEnding, body: string | undefined): void {
    const { log, nowMs } = this.#options;
    const endedAtMs = nowMs();
    if (!this.#allows(kind, endedAtMs)) return;
    const { method, tool, principal, sessionId, revision, acceptedAtMs, sentAtMs, httpStatus, requestBytes, isRejected } = request;
    const fields = {
      method: shorten(method),
      tool: tool && shorten(tool),
      session: sessionId && hashOf(sessionId),
      principal,
      revision,
      httpStatus,
      ending,
      queueMs: rounded((sentAtMs ?? endedAtMs) - acceptedAtMs),
      serverMs: sentAtMs === undefined ? undefined : rounded(endedAtMs - sentAtMs),
      requestBytes,
      responseBytes: body === undefined ? undefined : Buffer.byteLength(body),
    };
    if (kind === "failed") log.warn(fields, isRejected ? "request rejected" : "request ended");
    else log.info(fields, isRejected ? "request rejected" : "request ended");
  }

  #logRejected({ code: ending, httpStatus, reason, sender }: RejectedRequest): void {
    const { log, nowMs } = this.#options;
    const isFailed = kindOf(ending) === "failed";
    if (!this.#allows(isFailed ? "failed" : ending === "UNAUTHORIZED" ? "unauthorized" : "rejected", nowMs())) return;
    const { principal, sessionId, requestBytes } = sender();
    const session = sessionId && hashOf(sessionId);
    const fields = { session, principal, httpStatus, ending, reason: reason && shorten(reason, MAX_REASON_LENGTH), requestBytes };
    if (isFailed) log.warn(fields, "request rejected");
    else log.info(fields, "request rejected");
  }

  /** True if a line of this kind may be logged now. Otherwise, it is counted. */
  #allows(kind: LineKind, nowMs: number): boolean {
    if (this.#limits[kind].take(nowMs) === undefined) return true;
    if (this.#suppressed++ === 0) this.#report.watch(nowMs + REPORT_AFTER_MS);
    this.#hasSuppressedFailures ||= kind === "failed";
    return false;
  }

  #reportSuppressed(): number {
    const { log } = this.#options;
    const fields = { count: this.#suppressed };
    // A failure must not be hidden from those who read warnings only.
    if (this.#hasSuppressedFailures) log.warn(fields, "request lines suppressed: too many");
    else if (this.#suppressed > 0) log.info(fields, "request lines suppressed: too many");
    this.#suppressed = 0;
    this.#hasSuppressedFailures = false;
    return Number.POSITIVE_INFINITY;
  }
}

function kindOf(ending: RequestEnding): "ended" | "failed" | "errors" {
  if (ending === "results" || ending === "dismissed" || ending === "unread") return "ended";
  return ending !== "errors" && isFailure(ending) ? "failed" : "errors";
}

/** True for an error that the client has not caused, and that does not belong to a drain. */
function isFailure(code: SidecarErrorCode): boolean {
  if (code === "SHUTTING_DOWN") return false;
  const { httpStatus, jsonRpcCode } = ERROR_CATALOG[code];
  return httpStatus >= 500 || jsonRpcCode === JsonRpcErrorCode.InternalError || code === "REQUEST_TIMEOUT";
}

/** The id itself would let readers of the log use the session. */
function hashOf(sessionId: string): string {
  return hash("sha256", sessionId, "hex").slice(0, SESSION_HASH_LENGTH);
}

/** Rounds to a tenth of a millisecond. */
function rounded(ms: number): number {
  return Math.round(ms * 10) / 10;
}
