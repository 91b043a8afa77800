import { shorten } from "../json/text.ts";
import { SidecarError } from "../mcp/errors.ts";
import { RateLimit } from "../timers.ts";
import { findByName, ToolStates } from "./tools.ts";
import type { ToolNumber } from "../config/option.ts";

export interface CallRatesSettings {
  /** SESSION_CALLS_PER_MINUTE. */
  readonly sessionCallsPerMinute: number | undefined;
  /** TOOL_CALLS_PER_MINUTE. */
  readonly toolCallsPerMinute: readonly ToolNumber[] | undefined;
}

export interface CallRatesOptions extends CallRatesSettings {
  /** Reads a monotonic clock. */
  readonly nowMs: () => number;
}

const ROUNDING_MS = 1e-3;

interface ToolRate {
  readonly perMinute: number;
  readonly limit: RateLimit;
}

/** @returns undefined if calls are not limited. */
export function createCallRates(options: CallRatesOptions): CallRates | undefined {
  const { sessionCallsPerMinute, toolCallsPerMinute = [] } = options;
  return sessionCallsPerMinute === undefined && toolCallsPerMinute.length === 0 ? undefined : new CallRates(options);
}

/** Limits the tool calls a minute of each session, and those of each tool from all sessions together, in all lanes. */
export class CallRates {
  readonly #nowMs: () => number;
  readonly #sessionCallsPerMinute: number | undefined;
  readonly #ofCallers = new WeakMap<object, RateLimit>();
  readonly #ofTools: ToolStates<ToolRate> | undefined;
  /** The rates that further tools share when the table of tools is full, by calls a minute. */
  readonly #shared = new Map<number, ToolRate>();

  constructor({ sessionCallsPerMinute, toolCallsPerMinute = [], nowMs }: CallRatesOptions) {
    this.#nowMs = nowMs;
    this.#sessionCallsPerMinute = sessionCallsPerMinute;
    if (toolCallsPerMinute.length === 0) return;
    const rateOf = findByName(toolCallsPerMinute);
    this.#ofTools = new ToolStates<ToolRate>({
      create: (toolName) => createRate(rateOf(toolName)),
      isAsNew: ({ limit }) => limit.isFull(nowMs()),
      createShared: (toolName) => this.#sharedRate(rateOf(toolName)),
    });
  }

  /** Counts a call. @returns the error if it exceeds a rate; it is not counted then. */
  take(caller: object, toolName: unknown): SidecarError | undefined {
    const nowMs = this.#nowMs();
    const ofCaller = this.#limitOf(caller);
    const ofTool = typeof toolName === "string" ? this.#ofTools?.get(toolName) : undefined;
    const callerWaitMs = ofCaller?.waitMs(nowMs) ?? 0;
    const toolWaitMs = ofTool?.limit.waitMs(nowMs) ?? 0;
    if (ofTool !== undefined && toolWaitMs > callerWaitMs) {
      return rateLimited(`${ofTool.perMinute} per minute for tool ${shorten(String(toolName))} in all sessions`, toolWaitMs);
    }
    if (callerWaitMs > 0) return rateLimited(`${this.#sessionCallsPerMinute} per minute for tool calls of this client`, callerWaitMs);
    ofCaller?.take(nowMs);
    ofTool?.limit.take(nowMs);
    return undefined;
  }

  #limitOf(caller: object): RateLimit | undefined {
    if (this.#sessionCallsPerMinute === undefined) return undefined;
    let limit = this.#ofCallers.get(caller);
    if (limit === undefined) this.#ofCallers.set(caller, (limit = new RateLimit(this.#sessionCallsPerMinute)));
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
