import { CallSlots } from "../mux/call-slots.ts";
import type { CallTerms } from "../mux/call-terms.ts";
import { findByName } from "./tool-names.ts";
import { type ToolNumber, ToolStates } from "./tool-states.ts";

export interface ToolLimitsSettings {
  /** TOOL_TIMEOUTS_MS. */
  readonly toolTimeoutsMs: readonly ToolNumber[] | undefined;
  /** TOOL_CONCURRENCY. */
  readonly toolConcurrency: readonly ToolNumber[] | undefined;
}

/** The terms of a call of this tool, to be used at once: they may be other ones later, when no call of it is in flight. */
type TermsOf = (toolName: string) => CallTerms | undefined;

/**
 * How long each tool may take, and how many calls of it a server process has at a time.
 *
 * @returns undefined where no tool is limited; else a function to be called for each lane, for slots are those of one server process.
 */
export function createToolLimits({ toolTimeoutsMs = [], toolConcurrency = [] }: ToolLimitsSettings): (() => TermsOf) | undefined {
  if (toolTimeoutsMs.length === 0 && toolConcurrency.length === 0) return undefined;
  const timeoutOf = findByName(toolTimeoutsMs);
  const limitOf = findByName(toolConcurrency);
  const create = (toolName: string): CallTerms | undefined => {
    const timeoutMs = timeoutOf(toolName);
    const limit = limitOf(toolName);
    if (timeoutMs === undefined && limit === undefined) return undefined;
    return {
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      ...(limit === undefined ? {} : { slots: new CallSlots(toolName, limit) }),
    };
  };
  return () => {
    // Those in use are no more than the calls of the lane, which are bounded.
    const terms = new ToolStates<CallTerms>({ create, isAsNew: ({ slots }) => slots === undefined || slots.isUnused });
    return (toolName) => terms.get(toolName);
  };
}
