import type { ArgumentCheckMode } from "./check-mode.ts";
import type { SidecarError } from "../errors.ts";
import type { JsonObject } from "../protocol/message.ts";
import type { CallLimits } from "../lane/calls/call-limits.ts";
import type { Exchange } from "../sessions/exchange.ts";
import type { CheckedCall } from "./arguments/argument-check.ts";
import type { ToolFilter } from "./tools/tool-filter.ts";

/** The rules of the tool policy for one lane. A rule is undefined if it is off. */
export interface CallRules {
  /** Selects the tools that clients can see and call. */
  readonly filter: ToolFilter | undefined;
  readonly rates:
    | {
        /** Counts a call. @returns the error if it exceeds a rate. */
        take(session: object, toolName: unknown): SidecarError | undefined;
      }
    | undefined;
  readonly argumentCheck:
    | {
        readonly mode: Exclude<ArgumentCheckMode, "off">;
        /**
         * Checks the arguments of a call. Calls `onProblems` with the problems, one line a field.
         *
         * @returns a function that cancels the check.
         */
        check(call: CheckedCall, onProblems: (problems: readonly string[]) => void): () => void;
        /** Returns the JSON text of a result that lists the problems. */
        describe(toolName: string, problems: readonly string[]): string;
      }
    | undefined;
  readonly limitsOf: ((toolName: string) => CallLimits | undefined) | undefined;
  /** Wraps the exchange of a request that is answered with a tool's result. */
  readonly limitResult: ((exchange: Exchange) => Exchange) | undefined;
  /** Called with all tools of each generation. */
  readonly onTools: ((tools: readonly JsonObject[], generation: number) => void) | undefined;
}
