import { shorten } from "../json/text.ts";
import { type ErrorDetails, SidecarError, type SidecarErrorCode } from "../mcp/errors.ts";
import type { UpstreamExit, UpstreamStatus } from "../process/port.ts";
import { type Call, type Effect, effectOf } from "./call.ts";

/** A client may end its session long before the idle timeout. */
const MAX_RETRY_AFTER_SECONDS = 30;
/** Calls end after seconds, but streams are open for longer. */
const RETRY_SESSION_SECONDS = 5;

// `sent`: a generation has received the request, at least in part. `effect`: what sending it again does.

export function requestTimedOut(
  { method, toolName, timeoutSetting }: Pick<Call, "method" | "toolName" | "timeoutSetting">,
  takenMs: number,
  sent: boolean,
  effect: Effect,
): SidecarError {
  const asked = toolName === undefined ? shorten(method) : `${method} of ${shorten(toolName)}`;
  const setting = timeoutSetting === undefined ? "" : ` (CLAW_MCP_STDIO_${timeoutSetting})`;
  const message = `The MCP server did not answer ${asked} within ${takenMs / 1000} s${setting}.`;
  return failure("REQUEST_TIMEOUT", message, sent, effect, { timeoutMs: takenMs });
}

export function upstreamExited(method: string, exit: UpstreamExit, effect: Effect): SidecarError {
  // The tail of stderr may be about the request of another client.
  const { exitCode, reason, signal } = exit;
  return failure("UPSTREAM_EXITED", `The MCP server stopped during ${shorten(method)} (${reason}).`, true, effect, { exitCode, signal });
}

const MAX_TAIL_LINES = 5;
const MAX_TAIL_LINE_LENGTH = 300;

export function upstreamNotReady(status: UpstreamStatus, nowMs: number, sent = false, effect: Effect = "unknown"): SidecarError {
  const { state, lastExit, nextRetryAt } = status;
  const details = { retryAfterSeconds: wholeSeconds((nextRetryAt?.getTime() ?? nowMs) - nowMs) };
  if (state !== "failed")
    return failure("UPSTREAM_NOT_READY", `The MCP server is not ready: ${state}${lastExitText(status)}.`, sent, effect, details);
  const stderrTail = (lastExit?.stderrTail ?? []).slice(-MAX_TAIL_LINES).map((line) => shorten(line, MAX_TAIL_LINE_LENGTH));
  return failure("UPSTREAM_FAILED", `The MCP server keeps failing${lastExitText(status)}.`, sent, effect, {
    exitCode: lastExit?.exitCode,
    signal: lastExit?.signal,
    ...details,
    stderrTail,
  });
}

export function overloaded(reason: string, sent = false, effect: Effect = "unknown"): SidecarError {
  return failure("OVERLOADED", `The MCP server is overloaded: ${reason}.`, sent, effect, { retryAfterSeconds: 1 });
}

/** @param detail a sentence about the shortage or the request. */
export function outOfMemory(detail?: string): SidecarError {
  const shortage = "The sidecar has no memory left for another message (CLAW_MCP_STDIO_MEMORY_BUDGET_BYTES).";
  const message = `${shortage} ${detail === undefined ? "" : `${detail} `}${NOT_SENT}`;
  return new SidecarError("OUT_OF_MEMORY", message, { retryAfterSeconds: 1 });
}

export function responseOutOfMemory(method: string): SidecarError {
  const message = `The sidecar has no memory left for the response of the MCP server to ${shorten(method)} (CLAW_MCP_STDIO_MEMORY_BUDGET_BYTES).`;
  return failure("OUT_OF_MEMORY", message, true, effectOf(method), { retryAfterSeconds: 1 });
}

export function sessionOverloaded(limit: number): SidecarError {
  const message = `This client has ${limit} requests in flight or queued. ${NOT_SENT}`;
  return new SidecarError("SESSION_OVERLOADED", message, { retryAfterSeconds: 1 });
}

export function internalError(sent: boolean): SidecarError {
  return new SidecarError("INTERNAL_ERROR", `The request failed because of a defect in the sidecar. ${outcome(sent, "unknown")}`, { sent });
}

/** MCP 2025-11-25, server/tools, error handling. */
export function toolNotFound(name: string | undefined, sent = false): SidecarError {
  const shown = name === undefined ? "the call has no name" : shorten(name);
  const advice = sent ? OUTCOMES.unknown : "The call was not sent; call a tool that tools/list returns.";
  return new SidecarError("TOOL_NOT_FOUND", `Unknown tool: ${shown}. ${advice}`, { sent });
}

export function toolsNotListed(sent = false, effect: Effect = "unknown"): SidecarError {
  return failure("UPSTREAM_NOT_READY", "The MCP server has not listed its tools yet.", sent, effect, { retryAfterSeconds: 1 });
}

export function initializeTooLarge(limitBytes: number): SidecarError {
  const message = `The initialize of a client that needs its own server process has more than ${limitBytes} bytes. It was not sent.`;
  return new SidecarError("INVALID_REQUEST", message, { limitBytes });
}

/** @param share what this client may have, if it has it. */
export function noPrivateServerLeft(limit: number, freeInMs: number, share?: number): SidecarError {
  const taken = share === undefined ? `all ${limit}` : `the ${share} of ${limit} that it may have`;
  const message = `This client needs its own MCP server process, and ${taken} are in use. ${NOT_SENT}`;
  return new SidecarError("TOO_MANY_SERVERS", message, { retryAfterSeconds: Math.min(MAX_RETRY_AFTER_SECONDS, wholeSeconds(freeInMs)) });
}

export function tooManySessions(limit: number): SidecarError {
  const message = `All sessions are in use, or this client has its share of them (${limit} in total). ${NOT_SENT}`;
  return new SidecarError("TOO_MANY_SESSIONS", message, { retryAfterSeconds: RETRY_SESSION_SECONDS });
}

export function sessionRateExceeded(perMinute: number, waitMs: number): SidecarError {
  const message = `Only ${perMinute} sessions may be opened per minute. ${NOT_SENT}`;
  return new SidecarError("RATE_LIMITED", message, { retryAfterSeconds: Math.ceil(waitMs / 1000) });
}

export function shuttingDown(sent = false, effect: Effect = "unknown"): SidecarError {
  return failure("SHUTTING_DOWN", "The sidecar is shutting down.", sent, effect, sent ? {} : { retryAfterSeconds: 1 });
}

export function sessionEnded(method: string, sent: boolean, effect: Effect): SidecarError {
  return failure("REQUEST_CANCELLED", `The session ended during ${shorten(method)}.`, sent, effect);
}

export function sessionNotFound(): SidecarError {
  return new SidecarError("SESSION_NOT_FOUND", "This session does not exist or has ended; call initialize again.");
}

export function answerElsewhere(): SidecarError {
  const message = "This response is for a request of another replica, or from before a restart of the sidecar. No server got it.";
  return new SidecarError("OTHER_REPLICA", message, { retrySafe: false });
}

export function responseElsewhere(): SidecarError {
  const message =
    "The response is lost here: another replica has got the request, or the sidecar before it restarted or closed the session. It may have taken effect.";
  return new SidecarError("OTHER_REPLICA", message, { sent: true, retrySafe: false });
}

export function upstreamChanged(method: string, sent: boolean): SidecarError {
  const message = "The restarted MCP server speaks another revision of MCP than before.";
  return failure("UPSTREAM_NOT_READY", message, sent, effectOf(method), { retryAfterSeconds: 1 });
}

/** A private server, newer than the shared one, has refused `initialize`. */
export function sharedServerOutdated(): SidecarError {
  const message =
    "The MCP server of this client does not know initialize, unlike the shared one, which runs for longer. " +
    "Nothing took effect; retry after the sidecar or the shared server has restarted.";
  return new SidecarError("UPSTREAM_NOT_READY", message, { retryAfterSeconds: 10 });
}

/** Later requests of the session get the same code, so the client opens a new session. */
export function sessionOutdated(missing: string): SidecarError {
  const message = `This session has ended: the restarted MCP server no longer offers ${shorten(missing)}. Call initialize again. ${NOT_SENT}`;
  return new SidecarError("SESSION_NOT_FOUND", message);
}

/** @param limitBytes undefined if the memory was full. */
export function responseTooLarge(method: string, bytes: number, limitBytes: number | undefined, effect = effectOf(method)): SidecarError {
  const reason = limitBytes === undefined ? "and MEMORY_BUDGET_BYTES was used up" : `more than ${limitBytes}`;
  const message = `The response of the MCP server to ${shorten(method)} was discarded: it has ${bytes} bytes, ${reason}.`;
  return failure("UPSTREAM_RESPONSE_TOO_LARGE", message, true, effect, { limitBytes });
}

export function invalidResponse(method: string, reason: string, effect: Effect): SidecarError {
  const message = `The MCP server answered ${shorten(method)} with an invalid response: ${reason}.`;
  return failure("UPSTREAM_INVALID_RESPONSE", message, true, effect);
}

function failure(code: SidecarErrorCode, message: string, sent: boolean, effect: Effect, details: ErrorDetails = {}): SidecarError {
  return new SidecarError(code, `${message} ${outcome(sent, effect)}`, { sent, retrySafe: !sent || effect !== "unknown", ...details });
}

const NOT_SENT = "The request was not sent; it is safe to retry.";
const OUTCOMES: Readonly<Record<Effect, string>> = {
  safe: "The request was sent, but only reads; it is safe to retry.",
  idempotent: "The request was sent, but is idempotent; it is safe to retry.",
  unknown: "The request was sent and may have taken effect; check before you repeat it.",
};

function outcome(sent: boolean, effect: Effect): string {
  return sent ? OUTCOMES[effect] : NOT_SENT;
}

function lastExitText({ lastExit }: UpstreamStatus): string {
  if (lastExit === undefined) return "";
  const { reason, likelyCause } = lastExit;
  return ` (last exit: ${reason}${likelyCause === undefined ? "" : `; likely cause: ${likelyCause}`})`;
}

function wholeSeconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000));
}
