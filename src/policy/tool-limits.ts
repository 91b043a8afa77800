import type { Config } from "../config/load.ts";
import type { ToolNumber } from "../config/option.ts";
import type { Context } from "../context.ts";
import { copied, shorten } from "../json/text.ts";
import { SidecarError } from "../mcp/errors.ts";
import { type CallLimits, Semaphore } from "../server/call.ts";
import { MAX_TOOLS } from "../server/tools.ts";
import { RateLimit, ROUNDING_MS } from "../timers.ts";
import { matchesPattern } from "./tools.ts";

export function findByName(numbers: readonly ToolNumber[] | undefined, name: string): number | undefined {
  const characters = Array.from(name);
  return numbers?.find(({ pattern }) => matchesPattern(Array.from(pattern), characters))?.value;
}

/** Longer names with the same beginning count as one. MCP 2025-11-25 allows 128 characters. */
const MAX_NAME_LENGTH = 1000;

/** States by name. Clients may invent names, so a full table forgets only states that equal a new one: a flood cannot reset the count of another tool. */
export class ToolStates<State> {
  readonly #create: (toolName: string) => State | undefined;
  readonly #isAsNew: (state: State) => boolean;
  readonly #states = new Map<string, State>();
  #shared: State | undefined;

  /** @param create returns undefined if the tool needs none. */
  constructor(create: (toolName: string) => State | undefined, isAsNew: (state: State) => boolean) {
    this.#create = create;
    this.#isAsNew = isAsNew;
  }

  get(toolName: string): State | undefined {
    const name = toolName.length <= MAX_NAME_LENGTH ? toolName : copied(toolName.slice(0, MAX_NAME_LENGTH));
    const known = this.#states.get(name);
    if (known !== undefined) return known;
    const state = this.#create(name);
    if (state === undefined) return undefined;
    if (this.#states.size >= MAX_TOOLS) {
      const [[oldestName, oldest] = [name, state]] = this.#states;
      this.#states.delete(oldestName);
      // The next new name finds another one.
      if (!this.#isAsNew(oldest)) {
        this.#states.set(oldestName, oldest);
        return (this.#shared ??= state);
      }
    }
    this.#states.set(name, state);
    return state;
  }
}

/** @returns undefined if no tool is limited. The limits of a call must be used at once: they may be replaced when no call is in flight. */
export function createToolLimits({ toolTimeoutsMs, toolConcurrency }: Config): ((toolName: string) => CallLimits | undefined) | undefined {
  if (toolTimeoutsMs === undefined && toolConcurrency === undefined) return undefined;
  const create = (toolName: string): CallLimits | undefined => {
    const timeoutMs = findByName(toolTimeoutsMs, toolName);
    const limit = findByName(toolConcurrency, toolName);
    if (timeoutMs === undefined && limit === undefined) return undefined;
    const semaphore = limit === undefined ? undefined : new Semaphore(`tool ${shorten(toolName)}`, limit);
    return { timeoutMs, timeoutSetting: "TOOL_TIMEOUTS_MS", semaphore };
  };
  // The number of limits in use is bounded by the number of calls of the lane.
  const limits = new ToolStates<CallLimits>(create, ({ semaphore }) => semaphore === undefined || semaphore.isUnused);
  return (toolName) => limits.get(toolName);
}

/** The calls of each session, and of each tool from all sessions together, in all lanes. */
export class CallRates {
  readonly #context: Context;
  readonly #ofCallers = new WeakMap<object, RateLimit>();
  readonly #ofTools: ToolStates<RateLimit>;

  constructor(context: Context) {
    this.#context = context;
    const create = (toolName: string): RateLimit | undefined => {
      const perMinute = findByName(context.config.toolCallsPerMinute, toolName);
      return perMinute === undefined ? undefined : new RateLimit(perMinute);
    };
    this.#ofTools = new ToolStates<RateLimit>(create, (limit) => limit.isFull(context.nowMs()));
  }

  /** @returns the error if it exceeds a rate; it is not counted then. */
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
