import type { Context } from "../context.ts";
import { shorten } from "../json/text.ts";
import { SidecarError } from "../mcp/errors.ts";
import { RateLimit, ROUNDING_MS } from "../timers.ts";
import { findByName, ToolStates } from "./tools.ts";

/** Limits the tool calls a minute of each session, and those of each tool from all sessions together, in all lanes. */
export class CallRates {
  readonly #context: Context;
  readonly #ofCallers = new WeakMap<object, RateLimit>();
  readonly #ofTools: ToolStates<RateLimit>;

  constructor(context: Context) {
    this.#context = context;
    const perMinuteOf = findByName(context.config.toolCallsPerMinute);
    const create = (toolName: string): RateLimit | undefined => {
      const perMinute = perMinuteOf(toolName);
      return perMinute === undefined ? undefined : new RateLimit(perMinute);
    };
    this.#ofTools = new ToolStates<RateLimit>(create, (limit) => limit.isFull(context.nowMs()));
  }

  /** Counts a call. @returns the error if it exceeds a rate; it is not counted then. */
  take(caller: object, toolName: string): SidecarError | undefined {
    const nowMs = this.#context.nowMs();
    const ofCaller = this.#limitOf(caller);
    const ofTool = this.#ofTools.get(toolName);
    const callerWaitMs = ofCaller?.waitMs(nowMs) ?? 0;
    const toolWaitMs = ofTool?.waitMs(nowMs) ?? 0;
    if (ofTool !== undefined && toolWaitMs > callerWaitMs)
      return rateLimited(`${ofTool.perMinute} per minute for tool ${shorten(toolName)} in all sessions`, toolWaitMs);
    if (ofCaller !== undefined && callerWaitMs > 0)
      return rateLimited(`${ofCaller.perMinute} per minute for tool calls of this client`, callerWaitMs);
    ofCaller?.take(nowMs);
    ofTool?.take(nowMs);
    return undefined;
  }

  #limitOf(caller: object): RateLimit | undefined {
    const { sessionCallsPerMinute } = this.#context.config;
    if (sessionCallsPerMinute === undefined) return undefined;
    let limit = this.#ofCallers.get(caller);
    if (limit === undefined) this.#ofCallers.set(caller, (limit = new RateLimit(sessionCallsPerMinute)));
    return limit;
  }
}

function rateLimited(limit: string, waitMs: number): SidecarError {
  // A rounding error must not add a second.
  const retryAfterSeconds = Math.max(1, Math.ceil((waitMs - ROUNDING_MS) / 1000));
  const message = `Rate limit reached: ${limit}. The call was not sent; it is safe to retry in ${retryAfterSeconds} s.`;
  return new SidecarError("RATE_LIMITED", message, { retryAfterSeconds });
}
