import { SidecarError } from "../errors.ts";
import { isProtocolRead } from "./retry-safety.ts";
import type { UpstreamExit, UpstreamStatus } from "./upstream.ts";

const MAX_SHOWN_LENGTH = 100;
/** A client may end its session long before it is idle for so long that it is ended. */
const MAX_RETRY_AFTER_SECONDS = 30;

/** The errors of the lane, worded for the person or the model that reads them. */

export function requestTimedOut(method: string, timeoutMs: number, sent: boolean): SidecarError {
  const retrySafe = isRetrySafe(method, sent);
  return new SidecarError(
    "REQUEST_TIMEOUT",
    `The MCP server did not answer ${shorten(method)} within ${timeoutMs / 1000} s. ${outcome(sent, retrySafe)}`,
    {
      sent,
      retrySafe,
      timeoutMs,
    },
  );
}

export function upstreamExited(method: string, exit: UpstreamExit): SidecarError {
  const retrySafe = isProtocolRead(method);
  return new SidecarError(
    "UPSTREAM_EXITED",
    `The MCP server stopped during ${shorten(method)} (${exit.reason}). ${outcome(true, retrySafe)}`,
    {
      sent: true,
      retrySafe,
      ...(exit.exitCode === undefined ? {} : { exitCode: exit.exitCode }),
      ...(exit.signal === undefined ? {} : { signal: exit.signal }),
    },
  );
}

export function upstreamNotReady(status: UpstreamStatus, nowMs: number): SidecarError {
  const waitMs = status.nextRetryAt === undefined ? 0 : status.nextRetryAt.getTime() - nowMs;
  const cause = status.lastExit === undefined ? "" : ` (last: ${status.lastExit.reason})`;
  return new SidecarError("UPSTREAM_NOT_READY", `The MCP server is not ready: ${status.state}${cause}. ${outcome(false, true)}`, {
    sent: false,
    retrySafe: true,
    retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)),
  });
}

export function overloaded(what: string): SidecarError {
  return new SidecarError("OVERLOADED", `The MCP server is overloaded: ${what}. ${outcome(false, true)}`, {
    sent: false,
    retrySafe: true,
    retryAfterSeconds: 1,
  });
}

export function noPrivateServerLeft(limit: number, freeInMs: number): SidecarError {
  return new SidecarError(
    "TOO_MANY_SERVERS",
    `This client needs an MCP server process of its own, and all ${limit} are in use. ${outcome(false, true)}`,
    { sent: false, retrySafe: true, retryAfterSeconds: Math.min(MAX_RETRY_AFTER_SECONDS, Math.max(1, Math.ceil(freeInMs / 1000))) },
  );
}

export function shuttingDown(method: string, sent: boolean): SidecarError {
  const retrySafe = isRetrySafe(method, sent);
  return new SidecarError("SHUTTING_DOWN", `The sidecar of this MCP server is shutting down. ${outcome(sent, retrySafe)}`, {
    sent,
    retrySafe,
    ...(sent ? {} : { retryAfterSeconds: 1 }),
  });
}

export function sessionEnded(method: string, sent: boolean): SidecarError {
  const retrySafe = isRetrySafe(method, sent);
  return new SidecarError("REQUEST_CANCELLED", `The session of ${shorten(method)} has ended. ${outcome(sent, retrySafe)}`, {
    sent,
    retrySafe,
  });
}

export function responseTooLarge(method: string, length: number, limitBytes: number): SidecarError {
  return new SidecarError(
    "UPSTREAM_RESPONSE_TOO_LARGE",
    `The MCP server answered ${shorten(method)} with more than ${limitBytes} bytes (${length} characters); the answer was discarded. Ask for less at a time.`,
    { sent: true, retrySafe: isProtocolRead(method), limitBytes },
  );
}

/** A client chooses the method's name: it may be a megabyte long, and shall not be read again in a log or an error. */
export function shorten(name: string): string {
  return name.length <= MAX_SHOWN_LENGTH ? name : `${name.slice(0, MAX_SHOWN_LENGTH)}…`;
}

function isRetrySafe(method: string, sent: boolean): boolean {
  return !sent || isProtocolRead(method);
}

function outcome(sent: boolean, retrySafe: boolean): string {
  if (!sent) return "The request was not sent to it; it is safe to retry.";
  return retrySafe
    ? "The request had been sent, but only reads; it is safe to retry."
    : "The request had been sent and may have taken effect; check before repeating it.";
}
