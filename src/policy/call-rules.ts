import type { ArgumentCheckMode } from "../check-mode.ts";
import type { SidecarError } from "../errors.ts";
import type { JsonObject } from "../jsonrpc/message.ts";
import type { CallTerms } from "../mux/call-terms.ts";
import type { Exchange } from "../mux/exchange.ts";
import type { CheckedCall } from "./argument-check.ts";
import type { ToolFilter } from "./tool-filter.ts";

/** The rules of the tool policy that hold in one lane; undefined for each that is off. */
export interface CallRules {
  /** Which tools exist for clients. */
  readonly filter: ToolFilter | undefined;
  readonly rates:
    | {
        /** @returns why this call may not be made now, if it may not. */
        take(session: object, toolName: unknown): SidecarError | undefined;
      }
    | undefined;
  readonly argumentCheck:
    | {
        readonly mode: Exclude<ArgumentCheckMode, "off">;
        /**
         * Checks the arguments of a call. `onProblems` is given what is wrong, one line a field.
         *
         * @returns a function that stops the check.
         */
        check(call: CheckedCall, onProblems: (problems: readonly string[]) => void): () => void;
        /** The JSON text of the result that says so. */
        describe(toolName: string, problems: readonly string[]): string;
      }
    | undefined;
  readonly termsOf: ((toolName: string) => CallTerms | undefined) | undefined;
  /** Wraps the exchange of a request that is answered with a tool's result. */
  readonly limitResult: ((exchange: Exchange) => Exchange) | undefined;
  /** Told of all tools of each generation. */
  readonly onTools: ((tools: readonly JsonObject[], generation: number) => void) | undefined;
}
