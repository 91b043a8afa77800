import { hash } from "node:crypto";
import type { Context } from "../context.ts";
import { shorten } from "../json/text.ts";
import { ERROR_CATALOG, type ErrorEntry, JsonRpcErrorCode } from "../mcp/errors.ts";
import { type RejectedRequest, type RequestEnding, type RequestRecord, rounded } from "../observe/record.ts";
import { RateLimit, Timer } from "../timers.ts";

/** Per minute, and at once. A flood of one kind does not suppress the others. */
const LINES_PER_MINUTE = {
  /** Anybody who reaches the port can cause them. */
  unauthorized: 60,
  /** Rejected before they had a reply, though the server and the sidecar are well. */
  rejected: 60,
  failed: 300,
  errors: 300,
  ended: 6000,
} as const;

const CATALOG: Readonly<Partial<Record<RequestEnding, ErrorEntry>>> = ERROR_CATALOG;

const REPORT_AFTER_MS = 10_000;
const MAX_REASON_LENGTH = 200;
/** A part of a SHA-256 in hexadecimal. */
const SESSION_HASH_LENGTH = 12;

export class RequestLog {
  readonly #context: Context;
  readonly #limits = new Map<string, RateLimit>(Object.entries(LINES_PER_MINUTE).map(([kind, lines]) => [kind, new RateLimit(lines)]));
  readonly #report: Timer;
  #suppressed = 0;
  #hasSuppressedFailures = false;

  constructor(context: Context) {
    this.#context = context;
    this.#report = new Timer(context, () => this.#reportSuppressed());
    const { config, records } = context;
    records.onFailure = (request, body) => this.#logEnded(request, body);
    if (config.requestLog === "all") records.onSuccess = records.onFailure;
    records.onRejected = (request) => this.#logRejected(request);
  }

  close(): void {
    this.#report.clear();
    this.#reportSuppressed();
  }

  #logEnded(request: RequestRecord, body: string | undefined): void {
    const { log } = this.#context;
    const { acceptedAtMs, sentAtMs, endedAtMs, isRejected } = request;
    const { method, tool, principal, sessionId, revision, httpStatus, requestBytes } = request;
    const ending = request.ending === "tool_error" ? "results" : request.ending;
    const kind = kindOf(ending);
    if (!this.#allows(kind, endedAtMs)) return;
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

  #logRejected({ code: ending, httpStatus, reason, principal, sessionId, requestBytes }: RejectedRequest): void {
    const { log, nowMs } = this.#context;
    const isFailed = kindOf(ending) === "failed";
    if (!this.#allows(isFailed ? "failed" : ending === "UNAUTHORIZED" ? "unauthorized" : "rejected", nowMs())) return;
    const session = sessionId && hashOf(sessionId);
    const fields = { session, principal, httpStatus, ending, reason: reason && shorten(reason, MAX_REASON_LENGTH), requestBytes };
    if (isFailed) log.warn(fields, "request rejected");
    else log.info(fields, "request rejected");
  }

  /** Otherwise, the line is counted. */
  #allows(kind: keyof typeof LINES_PER_MINUTE, nowMs: number): boolean {
    if (this.#limits.get(kind)?.take(nowMs) === undefined) return true;
    if (this.#suppressed++ === 0) this.#report.set(nowMs + REPORT_AFTER_MS);
    this.#hasSuppressedFailures ||= kind === "failed";
    return false;
  }

  #reportSuppressed(): void {
    const { log } = this.#context;
    const fields = { count: this.#suppressed };
    // A failure must not be hidden from those who read warnings only.
    if (this.#hasSuppressedFailures) log.warn(fields, "request lines suppressed: too many");
    else if (this.#suppressed > 0) log.info(fields, "request lines suppressed: too many");
    this.#suppressed = 0;
    this.#hasSuppressedFailures = false;
  }
}

function kindOf(ending: RequestEnding): "ended" | "failed" | "errors" {
  if (ending === "errors" || ending === "SHUTTING_DOWN") return "errors";
  const error = CATALOG[ending];
  if (error === undefined) return "ended";
  // The client has not caused these.
  const isFailure = error.httpStatus >= 500 || error.jsonRpcCode === JsonRpcErrorCode.InternalError || ending === "REQUEST_TIMEOUT";
  return isFailure ? "failed" : "errors";
}

/** The id itself would let readers of the log use the session. */
function hashOf(sessionId: string): string {
  return hash("sha256", sessionId, "hex").slice(0, SESSION_HASH_LENGTH);
}
