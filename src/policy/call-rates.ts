import type { Context } from "../context.ts";
import { shorten } from "../json/text.ts";
import { SidecarError } from "../mcp/errors.ts";
import { RateLimit, ROUNDING_MS } from "../timers.ts";
import { findByName, ToolStates } from "./tools.ts";

interface ToolRate {
  readonly perMinute: number;
  readonly limit: RateLimit;
}

/** Limits the tool calls a minute of each session, and those of each tool from all sessions together, in all lanes. */
export class CallRates {
  readonly #context: Context;
  readonly #ofCallers = new WeakMap<object, RateLimit>();
  readonly #ofTools: ToolStates<ToolRate> | undefined;
  /** The rates that further tools share when the table of tools is full, by calls a minute. */
  readonly #shared = new Map<number, ToolRate>();

  constructor(context: Context) {
    const { config, nowMs } = context;
    this.#context = context;
    if (config.toolCallsPerMinute === undefined) return;
    const perMinuteOf = findByName(config.toolCallsPerMinute);
    this.#ofTools = new ToolStates<ToolRate>(
      (toolName) => createRate(perMinuteOf(toolName)),
      ({ limit }) => limit.isFull(nowMs()),
      (toolName) => this.#sharedRate(perMinuteOf(toolName)),
    );
  }

  /** Counts a call. @returns the error if it exceeds a rate; it is not counted then. */
  take(caller: object, toolName: string): SidecarError | undefined {
    const nowMs = this.#context.nowMs();
    const ofCaller = this.#limitOf(caller);
    const ofTool = this.#ofTools?.get(toolName);
    const callerWaitMs = ofCaller?.waitMs(nowMs) ?? 0;
    const toolWaitMs = ofTool?.limit.waitMs(nowMs) ?? 0;
    if (ofTool !== undefined && toolWaitMs > callerWaitMs) {
      return rateLimited(`${ofTool.perMinute} per minute for tool ${shorten(toolName)} in all sessions`, toolWaitMs);
    }
    const { sessionCallsPerMinute } = this.#context.config;
    if (callerWaitMs > 0) return rateLimited(`${sessionCallsPerMinute} per minute for tool calls of this client`, callerWaitMs);
    ofCaller?.take(nowMs);
    ofTool?.limit.take(nowMs);
    return undefined;
  }

  #limitOf(caller: object): RateLimit | undefined {
    const { sessionCallsPerMinute } = this.#context.config;
    if (sessionCallsPerMinute === undefined) return undefined;
    let limit = this.#ofCallers.get(caller);
    if (limit === undefined) this.#ofCallers.set(caller, (limit = new RateLimit(sessionCallsPerMinute)));
    return limit;
  }

  #sharedRate(perMinute: number | undefined): ToolRate | undefined {
    const known = perMinute === undefined ? undefined : this.#shared.get(perMinute);
    const rate = known ?? createRate(perMinute);
    if (rate !== undefined && known === undefined) this.#shared.set(rate.perMinute, rate);
    return rate;
  }
}

function createRate(perMinute: number | undefined): ToolRate | undefined {
  return perMinute === undefined ? undefined : { perMinute, limit: new RateLimit(perMinute) };
}

function rateLimited(limit: string, waitMs: number): SidecarError {
  // A rounding error must not add a second.
  const retryAfterSeconds = Math.max(1, Math.ceil((waitMs - ROUNDING_MS) / 1000));
  const message = `Rate limit reached: ${limit}. The call was not sent; it is safe to retry in ${retryAfterSeconds} s.`;
  return new SidecarError("RATE_LIMITED", message, { retryAfterSeconds });
}
