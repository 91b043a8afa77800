import { ToolSemaphore } from "../lane/queue/tool-semaphore.ts";
import type { CallLimits } from "../lane/calls/call-limits.ts";
import { findByName } from "./tools/tool-names.ts";
import { type ToolNumber, ToolStates } from "./tools/tool-states.ts";

export interface ToolLimitsSettings {
  /** TOOL_TIMEOUTS_MS. */
  readonly toolTimeoutsMs: readonly ToolNumber[] | undefined;
  /** TOOL_CONCURRENCY. */
  readonly toolConcurrency: readonly ToolNumber[] | undefined;
}

/** Returns the limits of a call of a tool. They must be used at once, because they may be replaced when no call of the tool is in flight. */
type LimitsOf = (toolName: string) => CallLimits | undefined;

/**
 * Limits the time of each tool's calls, and the number of its calls in flight at one server.
 *
 * @returns undefined if no tool is limited. Otherwise a function to be called for each lane, because slots belong to one server.
 */
export function createToolLimits({ toolTimeoutsMs = [], toolConcurrency = [] }: ToolLimitsSettings): (() => LimitsOf) | undefined {
  if (toolTimeoutsMs.length === 0 && toolConcurrency.length === 0) return undefined;
  const timeoutOf = findByName(toolTimeoutsMs);
  const limitOf = findByName(toolConcurrency);
  const create = (toolName: string): CallLimits | undefined => {
    const timeoutMs = timeoutOf(toolName);
    const limit = limitOf(toolName);
    if (timeoutMs === undefined && limit === undefined) return undefined;
    return {
      ...(timeoutMs === undefined ? {} : { timeoutMs, timeoutSetting: "TOOL_TIMEOUTS_MS" }),
      ...(limit === undefined ? {} : { semaphore: new ToolSemaphore(toolName, limit) }),
    };
  };
  return () => {
    // The number of limits in use is bounded by the number of calls of the lane.
    const limits = new ToolStates<CallLimits>({ create, isAsNew: ({ semaphore }) => semaphore === undefined || semaphore.isUnused });
    return (toolName) => limits.get(toolName);
  };
}
