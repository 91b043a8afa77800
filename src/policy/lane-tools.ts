import type { Counters } from "../observability/counters.ts";
import type { SidecarError } from "../errors.ts";
import { shorten } from "../json/text.ts";
import type { JsonObject } from "../protocol/message.ts";
import type { Call } from "../lane/calls/call.ts";
import type { CallCheck, CallVerdict } from "../lane/calls/call-limits.ts";
import { toolNotFound } from "../lane/failures.ts";
import type { ToolWatcher } from "../lane/tools/server-tools.ts";
import type { Log } from "../observability/log.ts";
import type { CallRules } from "./call-rules.ts";
import { visibleNames } from "./tools/tool-filter.ts";

export interface LaneToolsOptions {
  readonly rules: Pick<CallRules, "filter" | "argumentCheck" | "onTools">;
  readonly counters: Counters;
  readonly log: Log;
}

/** The known tools of a lane's server, and the arguments that they take. */
export class LaneTools implements ToolWatcher {
  readonly #options: LaneToolsOptions;
  /** The names that clients may call; undefined while the server is not ready or has not listed its tools. */
  #names: ReadonlySet<string> | undefined;
  /** The names of listed tools that are hidden from clients. */
  #hiddenNames: ReadonlySet<string> = new Set();
  /** The tools by name, if arguments are checked. A name may have several tools, and it is unknown which one the server calls. */
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

  /** True if clients may see a listed tool. False if a hidden tool has the same name. */
  isShown(tool: JsonObject): boolean {
    const { filter } = this.#options.rules;
    return filter === undefined || (filter(tool) && !this.#hiddenNames.has(tool["name"] as string));
  }

  /** True if clients may call a tool's name, but the filter rejects the tool as now listed: it has changed without a notification. */
  isOutdated(tool: JsonObject): boolean {
    return this.#options.rules.filter?.(tool) === false && this.#names?.has(tool["name"] as string) === true;
  }

  /** @returns an error if clients may not call the tool; undefined if they may, or if the tools are not known yet. */
  missing(toolName: unknown): SidecarError | undefined {
    if (this.#options.rules.filter === undefined || this.#names === undefined) return undefined;
    return typeof toolName === "string" && this.#names.has(toolName) ? undefined : toolNotFound(toolName);
  }

  /**
   * @param argsText the JSON text of the arguments, if there are any.
   * @returns the check of a call, which uses the tools that are known when it runs; undefined if arguments are not checked.
   */
  checkOf(session: object, toolName: string, argsText: string | undefined): CallCheck | undefined {
    const { argumentCheck } = this.#options.rules;
    if (argumentCheck === undefined) return undefined;
    // A call with invalid arguments that is sent may return to the queue if the server exits without reading it. It is checked again then.
    let isCounted = false;
    return (onVerdict) => {
      let stop: (() => void) | undefined;
      const check = (): void => {
        const definitions = this.#definitions;
        const tools = definitions.get(toolName);
        if (tools === undefined) return onVerdict(undefined);
        stop = argumentCheck.check({ tools, argsText, caller: session }, (problems) => {
          // The server's tools have changed in the meantime.
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

  /** @returns the result that answers the call; undefined if the call is sent nevertheless. */
  #onProblems(toolName: string, problems: readonly string[], isCounted: boolean): string | undefined {
    const { rules, counters, log } = this.#options;
    if (!isCounted) counters.policy.invalidArguments++;
    if (rules.argumentCheck?.mode === "enforce") return rules.argumentCheck.describe(toolName, problems);
    if (isCounted) return undefined;
    const fields = { method: "tools/call", tool: shorten(toolName), count: problems.length, reason: problems[0] };
    log.warn(fields, "arguments violate the schema");
    return undefined;
  }

  /** Checks a call that was accepted before the current tools were known. */
  review({ toolName }: Call, isSent: boolean): CallVerdict | undefined {
    const error = this.missing(toolName);
    return error === undefined ? undefined : { error: isSent ? toolNotFound(toolName, true) : error };
  }
}
