import { SidecarError } from "../errors.ts";
import { shorten } from "../json/text.ts";
import { type Effect, effectOf } from "./retry-safety.ts";
import type { UpstreamExit, UpstreamStatus } from "../upstream/port.ts";

/** A client may end its session long before it is idle for so long that it is ended. */
const MAX_RETRY_AFTER_SECONDS = 30;

/** The errors of the lane, worded for the person or the model that reads them. `effect` is that of sending the request once more. */

export function requestTimedOut(method: string, timeoutMs: number, sent: boolean, effect = effectOf(method)): SidecarError {
  return new SidecarError(
    "REQUEST_TIMEOUT",
    `The MCP server did not answer ${shorten(method)} within ${timeoutMs / 1000} s. ${outcome(sent, effect)}`,
    {
      sent,
      retrySafe: isRetrySafe(sent, effect),
      timeoutMs,
    },
  );
}

export function upstreamExited(method: string, exit: UpstreamExit, effect = effectOf(method)): SidecarError {
  return new SidecarError(
    "UPSTREAM_EXITED",
    `The MCP server stopped during ${shorten(method)} (${exit.reason}). ${outcome(true, effect)}`,
    {
      sent: true,
      retrySafe: isRetrySafe(true, effect),
      ...(exit.exitCode === undefined ? {} : { exitCode: exit.exitCode }),
      ...(exit.signal === undefined ? {} : { signal: exit.signal }),
    },
  );
}

/** @param sent whether a server had it that has ended since. */
export function upstreamNotReady(status: UpstreamStatus, nowMs: number, sent = false, effect: Effect = "unknown"): SidecarError {
  const waitMs = status.nextRetryAt === undefined ? 0 : status.nextRetryAt.getTime() - nowMs;
  const cause = status.lastExit === undefined ? "" : ` (last: ${status.lastExit.reason})`;
  return new SidecarError("UPSTREAM_NOT_READY", `The MCP server is not ready: ${status.state}${cause}. ${outcome(sent, effect)}`, {
    sent,
    retrySafe: isRetrySafe(sent, effect),
    retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)),
  });
}

/** How much of what the server said last an error repeats. */
const MAX_TAIL_LINES = 5;
const MAX_TAIL_LINE_LENGTH = 300;

/** @param sent whether a server had it that has ended since. */
export function upstreamFailed(
  { lastExit, nextRetryAt }: UpstreamStatus,
  nowMs: number,
  sent = false,
  effect: Effect = "unknown",
): SidecarError {
  const waitMs = nextRetryAt === undefined ? 0 : nextRetryAt.getTime() - nowMs;
  const cause = lastExit === undefined ? "" : ` (last: ${lastExit.reason})`;
  return new SidecarError("UPSTREAM_FAILED", `The MCP server ends again and again${cause}. ${outcome(sent, effect)}`, {
    sent,
    retrySafe: isRetrySafe(sent, effect),
    ...(lastExit?.exitCode === undefined ? {} : { exitCode: lastExit.exitCode }),
    ...(lastExit?.signal === undefined ? {} : { signal: lastExit.signal }),
    stderrTail: (lastExit?.stderrTail ?? []).slice(-MAX_TAIL_LINES).map((line) => shorten(line, MAX_TAIL_LINE_LENGTH)),
    retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)),
  });
}

/** @param sent whether a server had it that has ended since. */
export function overloaded(what: string, sent = false, effect: Effect = "unknown"): SidecarError {
  return new SidecarError("OVERLOADED", `The MCP server is overloaded: ${what}. ${outcome(sent, effect)}`, {
    sent,
    retrySafe: isRetrySafe(sent, effect),
    retryAfterSeconds: 1,
  });
}

export function sessionOverloaded(limit: number): SidecarError {
  return new SidecarError("SESSION_OVERLOADED", `This session has ${limit} requests in flight or waiting. ${NOT_SENT}`, {
    sent: false,
    retrySafe: true,
    retryAfterSeconds: 1,
  });
}

/** @param sent whether the request may have reached the server. */
export function internalError(sent: boolean): SidecarError {
  return new SidecarError("INTERNAL_ERROR", `The request failed by a defect of the sidecar. ${outcome(sent, "unknown")}`, {
    sent,
    retrySafe: !sent,
  });
}

/** Worded as in MCP 2025-11-25, server/tools, error handling. @param name as the client gave it. */
export function toolNotFound(name: unknown, sent = false): SidecarError {
  const shown = typeof name === "string" ? shorten(name) : "the call names none";
  return new SidecarError("TOOL_NOT_FOUND", `Unknown tool: ${shown}. Call one that tools/list names.`, { sent, retrySafe: !sent });
}

/** The server is there, and what it must tell before it gets requests is not known yet. */
export function toolsNotListed(sent = false, effect: Effect = "unknown"): SidecarError {
  return new SidecarError("UPSTREAM_NOT_READY", `The MCP server has not listed its tools yet. ${outcome(sent, effect)}`, {
    sent,
    retrySafe: isRetrySafe(sent, effect),
    retryAfterSeconds: 1,
  });
}

export function noPrivateServerLeft(limit: number, freeInMs: number): SidecarError {
  return new SidecarError(
    "TOO_MANY_SERVERS",
    `This client needs an MCP server process of its own, and all ${limit} are in use. ${NOT_SENT}`,
    { sent: false, retrySafe: true, retryAfterSeconds: Math.min(MAX_RETRY_AFTER_SECONDS, Math.max(1, Math.ceil(freeInMs / 1000))) },
  );
}

export function tooManySessions(perMinute: number, waitMs: number): SidecarError {
  return new SidecarError("RATE_LIMITED", `No more than ${perMinute} sessions may be opened a minute. ${NOT_SENT}`, {
    sent: false,
    retrySafe: true,
    retryAfterSeconds: Math.ceil(waitMs / 1000),
  });
}

export function shuttingDown(method: string, sent: boolean, effect = effectOf(method)): SidecarError {
  return new SidecarError("SHUTTING_DOWN", `The sidecar of this MCP server is shutting down. ${outcome(sent, effect)}`, {
    sent,
    retrySafe: isRetrySafe(sent, effect),
    ...(sent ? {} : { retryAfterSeconds: 1 }),
  });
}

export function sessionEnded(method: string, sent: boolean, effect = effectOf(method)): SidecarError {
  return new SidecarError("REQUEST_CANCELLED", `The session of ${shorten(method)} has ended. ${outcome(sent, effect)}`, {
    sent,
    retrySafe: isRetrySafe(sent, effect),
  });
}

/** For a request that was not sent. As any later one of its session is answered, so that its client begins a new session for it. */
export function sessionOutdated(missing: string): SidecarError {
  return new SidecarError(
    "SESSION_NOT_FOUND",
    `This session has ended: the MCP server was started anew and no longer offers ${shorten(missing)}. Call initialize again. ${NOT_SENT}`,
    { sent: false, retrySafe: true },
  );
}

export function responseTooLarge(method: string, bytes: number, limitBytes: number, effect = effectOf(method)): SidecarError {
  return new SidecarError(
    "UPSTREAM_RESPONSE_TOO_LARGE",
    `The MCP server answered ${shorten(method)} with ${bytes} bytes, more than ${limitBytes}; the answer was discarded. Ask for less at a time.`,
    { sent: true, retrySafe: isRetrySafe(true, effect), limitBytes },
  );
}

function isRetrySafe(sent: boolean, effect: Effect): boolean {
  return !sent || effect !== "unknown";
}

const NOT_SENT = "The request was not sent to it; it is safe to retry.";
const OUTCOMES: Readonly<Record<Effect, string>> = {
  reads: "The request had been sent, but only reads; it is safe to retry.",
  same: "The request had been sent, but comes to the same when it is sent twice; it is safe to retry.",
  unknown: "The request had been sent and may have taken effect; check before repeating it.",
};

function outcome(sent: boolean, effect: Effect): string {
  return sent ? OUTCOMES[effect] : NOT_SENT;
}
