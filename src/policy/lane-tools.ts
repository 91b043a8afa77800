import type { Counters } from "../counters.ts";
import type { SidecarError } from "../errors.ts";
import { readValue } from "../json/values.ts";
import { type JsonObject, readMessage, Slot } from "../jsonrpc/message.ts";
import type { Call } from "../mux/call.ts";
import type { Exchange } from "../mux/exchange.ts";
import { shorten, toolNotFound } from "../mux/failures.ts";
import type { CallVerdict, ToolWatcher } from "../mux/server-tools.ts";
import type { Log } from "../observability/log.ts";
import { findAmbiguities } from "./ambiguous-arguments.ts";
import type { ToolCall } from "./call-params.ts";
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
  readonly #definitions = new Map<string, JsonObject[]>();
  /** The calls that were found wrong, and carried: one that waits is looked at again, and is still one. */
  readonly #warned = new WeakSet<Exchange>();

  constructor(options: LaneToolsOptions) {
    this.#options = options;
  }

  onTools(tools: readonly JsonObject[], generation: number): void {
    const { filter, argumentCheck, onTools } = this.#options.rules;
    onTools?.(tools, generation);
    this.#names = visibleNames(tools, filter);
    this.#hiddenNames = visibleNames(tools, undefined).difference(this.#names);
    this.#definitions.clear();
    if (argumentCheck === undefined) return;
    for (const tool of tools) {
      const { name } = tool;
      if (typeof name !== "string") continue;
      const same = this.#definitions.get(name);
      if (same === undefined) this.#definitions.set(name, [tool]);
      else same.push(tool);
    }
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
   * @returns the result that a call with wrong arguments is answered with, if it is.
   */
  checkArguments({ name: toolName, argsText }: ToolCall, call: Exchange): string | undefined {
    const { rules, counters, log } = this.#options;
    const { argumentCheck } = rules;
    if (argumentCheck === undefined || this.#names === undefined || toolName === undefined) return undefined;
    if (this.#warned.has(call)) return undefined;
    const tools = this.#definitions.get(toolName) ?? [];
    const args = argsText === undefined ? undefined : readValue(argsText);
    const ambiguities = argsText === undefined ? [] : findAmbiguities(tools, args, argsText, 0);
    const problems = ambiguities.length > 0 ? ambiguities : firstProblems(tools, (tool) => argumentCheck.problems(tool, args));
    if (problems.length === 0) return undefined;
    counters.policy.invalidArguments++;
    if (argumentCheck.mode === "enforce") return argumentCheck.describe(toolName, problems);
    this.#warned.add(call);
    log.warn(
      { method: "tools/call", tool: shorten(toolName), count: problems.length, reason: problems[0] },
      "arguments violate the schema",
    );
    return undefined;
  }

  /** What was taken while the tools were not known is looked at when they are. */
  review({ toolName, text, exchange }: Call, isSent: boolean): CallVerdict | undefined {
    const error = this.missing(toolName);
    if (error !== undefined) return { error: isSent ? toolNotFound(toolName, true) : error };
    // What was found right once, and was sent, is sent once more.
    if (isSent || this.#options.rules.argumentCheck === undefined) return undefined;
    const message = readMessage(text);
    const argsText = message.kind === "invalid" ? undefined : message.outline.textAt(Slot.arguments);
    const resultText = this.checkArguments({ name: toolName, argsText }, exchange);
    return resultText === undefined ? undefined : { resultText };
  }
}

/** Of several tools with one name, the arguments have to fit all. */
function firstProblems(tools: readonly JsonObject[], problemsOf: (tool: JsonObject) => readonly string[]): readonly string[] {
  for (const tool of tools) {
    const problems = problemsOf(tool);
    if (problems.length > 0) return problems;
  }
  return [];
}
