import type { RetryMode } from "./retry-mode.ts";
import { type Call, isSent } from "./call.ts";
import { type Effect, effectOf } from "./method-effects.ts";

/** Decides which calls the sidecar sends again after the server was lost, and which calls a client may retry safely. */
export class Retries {
  readonly #mode: RetryMode;
  readonly #isReadOnly: (toolName: string | undefined) => boolean;

  /** @param isReadOnly returns true if a tool is known to be read-only. */
  constructor(mode: RetryMode, isReadOnly: (toolName: string | undefined) => boolean) {
    this.#mode = mode;
    this.#isReadOnly = isReadOnly;
  }

  effectOf({ method, toolName, retry }: Call): Effect {
    // The call was read-only when it was queued again. The next generation may not have listed its tools yet.
    if (retry !== "none") return "safe";
    if (method === "tools/call") return this.#mode === "read-only" && this.#isReadOnly(toolName) ? "safe" : "unknown";
    return effectOf(method);
  }

  /** Returns the arguments for the error of a call that is given up. */
  outcomeOf(call: Call): [method: string, sent: boolean, effect: Effect] {
    return [call.method, isSent(call), this.effectOf(call)];
  }

  /** True if a call of this method may be sent again automatically. */
  mayRetry(method: string): boolean {
    if (this.#mode === "off") return false;
    return method === "tools/call" ? this.#mode === "read-only" : effectOf(method) === "safe";
  }

  /**
   * Returns true if a call is sent again automatically. A call whose client has seen progress or a question is not: it would see them again. An
   * internal request is not either: each generation gets new ones.
   */
  shouldRetry(call: Call, nowMs: number): boolean {
    if (this.#mode === "off" || call.state !== "written" || call.origin === "sidecar" || !call.isKept) return false;
    if (call.retry !== "none" || call.mustNotRestart || call.deadlineMs <= nowMs) return false;
    return this.effectOf(call) === "safe";
  }

  /** Returns the calls of a lost generation that are sent again, and marks them as queued. */
  takeFrom(calls: Iterable<Call>, nowMs: number): Call[] {
    const retried: Call[] = [];
    for (const call of calls) {
      // The lost generation may have left it unwritten.
      call.sentAtMs = undefined;
      if (!this.shouldRetry(call, nowMs)) continue;
      call.state = "queued";
      call.retry = "due";
      retried.push(call);
    }
    return retried;
  }
}
