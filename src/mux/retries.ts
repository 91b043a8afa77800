import type { RetryMode } from "../retry.ts";
import { type Call, isSent } from "./call.ts";
import { ReadOnlyTools } from "./read-only-tools.ts";
import { type Effect, effectOf } from "./retry-safety.ts";

/** What is sent once more when a server has ended that had it, and what its client could send again without harm. */
export class Retries {
  readonly #mode: RetryMode;
  /** Undefined where nobody needs to know. */
  readonly readOnlyTools: ReadOnlyTools | undefined;

  constructor(mode: RetryMode) {
    this.#mode = mode;
    this.readOnlyTools = mode === "read-only" ? new ReadOnlyTools() : undefined;
  }

  effectOf({ method, toolName, repeat }: Call): Effect {
    // It was found to only read; the next server may not have told of its tools yet.
    if (repeat !== "none") return "reads";
    if (method === "tools/call") return this.readOnlyTools?.has(toolName) === true ? "reads" : "unknown";
    return effectOf(method);
  }

  /** What the error says of a call that is given up. */
  fateOf(call: Call): [method: string, sent: boolean, effect: Effect] {
    return [call.method, isSent(call), this.effectOf(call)];
  }

  /** Whether a call of this method is ever sent once more by itself. */
  mayRepeat(method: string): boolean {
    if (this.#mode === "off") return false;
    return method === "tools/call" ? this.readOnlyTools !== undefined : effectOf(method) === "reads";
  }

  /**
   * Whether a call is sent once more by itself. One that has shown progress is not: the client would see it begin anew. Neither is one of
   * the sidecar's own, which are made anew for each server.
   */
  repeats(call: Call, nowMs: number): boolean {
    if (this.#mode === "off" || call.state !== "written" || call.session === undefined || !call.isKept) return false;
    if (call.repeat !== "none" || call.hasShownProgress || call.deadlineMs <= nowMs) return false;
    return this.effectOf(call) === "reads";
  }
}
