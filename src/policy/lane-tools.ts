import type { Counters } from "../counters.ts";
import type { SidecarError } from "../errors.ts";
import { shorten } from "../json/text.ts";
import type { JsonObject } from "../jsonrpc/message.ts";
import type { Call } from "../mux/call.ts";
import type { CallCheck, CallVerdict } from "../mux/call-terms.ts";
import { toolNotFound } from "../mux/failures.ts";
import type { ToolWatcher } from "../mux/server-tools.ts";
import type { Log } from "../observability/log.ts";
import type { CallRules } from "./call-rules.ts";
import { visibleNames } from "./tool-filter.ts";

export interface LaneToolsOptions {
  readonly rules: Pick<CallRules, "filter" | "argumentCheck" | "onTools">;
  readonly counters: Counters;
  readonly log: Log;
}

/** What is known of the tools of a lane's server, and so of the calls of them: which there are, and which arguments they take. */
export class LaneTools implements ToolWatcher {
  readonly #options: LaneToolsOptions;
  /** Undefined while the server is away, or has not told its tools. */
  #names: ReadonlySet<string> | undefined;
  /** The names that the server has told, and no client may know. */
  #hiddenNames: ReadonlySet<string> = new Set();
  /** By name, where arguments are checked: nobody knows which one is called of several with one name. */
  #definitions: ReadonlyMap<unknown, readonly JsonObject[]> = new Map();

  constructor(options: LaneToolsOptions) {
    this.#options = options;
  }

  onTools(tools: readonly JsonObject[], generation: number): void {
    const { filter, argumentCheck, onTools } = this.#options.rules;
    onTools?.(tools, generation);
    this.#names = visibleNames(tools, filter);
    this.#hiddenNames = visibleNames(tools, undefined).difference(this.#names);
    if (argumentCheck !== undefined) this.#definitions = Map.groupBy(tools, ({ name }) => name);
  }

  onLost(): void {
    this.#names = undefined;
  }

  /** Whether clients may read of a tool in a page of a list: not of one whose name is also that of a hidden one. */
  isShown(tool: JsonObject): boolean {
    const { filter } = this.#options.rules;
    return filter === undefined || (filter(tool) && !this.#hiddenNames.has(tool["name"] as string));
  }

  /** Whether clients may call a tool by its name, and may not by what is told of it now: it has changed, and nobody has said so. */
  isOutdated(tool: JsonObject): boolean {
    return this.#options.rules.filter?.(tool) === false && this.#names?.has(tool["name"] as string) === true;
  }

  /** @returns why there is no such tool for clients; undefined where there is one, or the tools are not known yet. */
  missing(toolName: unknown): SidecarError | undefined {
    if (this.#options.rules.filter === undefined || this.#names === undefined) return undefined;
    return typeof toolName === "string" && this.#names.has(toolName) ? undefined : toolNotFound(toolName);
  }

  /**
   * @param argsText the JSON text of the arguments, if there are any.
   * @returns the check of a call by the tools that are known when it is its turn; undefined if arguments are not checked.
   */
  checkOf(session: object, toolName: string, argsText: string | undefined): CallCheck | undefined {
    const { argumentCheck } = this.#options.rules;
    if (argumentCheck === undefined) return undefined;
    // A call that is carried with wrong arguments may come back from a server that has not read it, and is checked again.
    let isCounted = false;
    return (onVerdict) => {
      let stop: (() => void) | undefined;
      const check = (): void => {
        const definitions = this.#definitions;
        const tools = definitions.get(toolName);
        if (tools === undefined) return onVerdict(undefined);
        stop = argumentCheck.check({ tools, argsText, caller: session }, (problems) => {
          // The server has changed its tools meanwhile.
          if (this.#definitions !== definitions) return check();
          const resultText = problems.length === 0 ? undefined : this.#onProblems(toolName, problems, isCounted);
          isCounted ||= problems.length > 0;
          onVerdict(resultText === undefined ? undefined : { resultText });
        });
      };
      check();
      return () => stop?.();
    };
  }

  /** @returns the result that the call is answered with, if it is not carried all the same. */
  #onProblems(toolName: string, problems: readonly string[], isCounted: boolean): string | undefined {
    const { rules, counters, log } = this.#options;
    if (!isCounted) counters.policy.invalidArguments++;
    if (rules.argumentCheck?.mode === "enforce") return rules.argumentCheck.describe(toolName, problems);
    if (isCounted) return undefined;
    const fields = { method: "tools/call", tool: shorten(toolName), count: problems.length, reason: problems[0] };
    log.warn(fields, "arguments violate the schema");
    return undefined;
  }

  /** Looks at a call that was taken while the tools were not known, or were others. */
  review({ toolName }: Call, isSent: boolean): CallVerdict | undefined {
    const error = this.missing(toolName);
    return error === undefined ? undefined : { error: isSent ? toolNotFound(toolName, true) : error };
  }
}
