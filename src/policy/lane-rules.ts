import type { Counters } from "../observability/counters.ts";
import { SidecarError } from "../errors.ts";
import { shorten } from "../json/text.ts";
import type { JsonObject, NotificationMessage, RequestMessage } from "../protocol/message.ts";
import type { Call } from "../lane/calls/call.ts";
import type { CallCheck, CallLimits, CallVerdict } from "../lane/calls/call-limits.ts";
import { MAX_INTERNAL_RESULT_BYTES } from "../lane/internal/internal-exchange.ts";
import { responseTooLarge, toolNotFound } from "../lane/failures.ts";
import type { LanePolicy } from "../lane/lane-policy.ts";
import type { Log } from "../observability/log.ts";
import { limitedLog } from "../observability/log-limiter.ts";
import type { Caller } from "../sessions/caller.ts";
import type { Exchange } from "../sessions/exchange.ts";
import type { ArgumentCheck } from "./arguments/argument-check.ts";
import { invalidArgumentsResult } from "./arguments/invalid-arguments.ts";
import { readCall } from "./call-params.ts";
import type { CallRates } from "./call-rates.ts";
import type { ArgumentCheckMode } from "./check-mode.ts";
import { LimitedExchange, type ResultLimit } from "./result-limit/limited-exchange.ts";
import { RewrittenExchange } from "../sessions/rewritten-exchange.ts";
import { withoutOutputSchemas } from "./tools/output-schemas.ts";
import { type ToolFilter, visibleNames } from "./tools/tool-filter.ts";
import { filterToolsList } from "./tools/tool-list-answer.ts";

/** The rules of a lane. A rule is undefined if it is off. */
export interface LaneRulesOptions {
  /** Selects the tools that clients can see and call. */
  readonly filter?: ToolFilter | undefined;
  readonly rates?: CallRates | undefined;
  readonly argumentCheck?: Pick<ArgumentCheck, "check"> | undefined;
  readonly argumentCheckMode: ArgumentCheckMode;
  readonly limitsOf?: ((toolName: string) => CallLimits | undefined) | undefined;
  readonly resultLimit?: ResultLimit | undefined;
  /** Called with all tools of each generation. */
  readonly onListed?: ((tools: readonly JsonObject[], generation: number) => void) | undefined;
  readonly counters: Counters;
  readonly log: Log;
  readonly nowMs: () => number;
}

/** The tool policy of one lane, and the tools of its server. Calls pass the rules, the cheapest first. */
export class LaneRules implements LanePolicy {
  readonly #options: LaneRulesOptions;
  readonly #log: Log;
  /** The names that clients may call; undefined while the server is not ready or has not listed its tools. */
  #names: ReadonlySet<string> | undefined;
  /** The names of listed tools that are hidden from clients. */
  #hiddenNames: ReadonlySet<string> = new Set();
  /** The tools by name, if arguments are checked. A name may have several tools, and it is unknown which one the server calls. */
  #definitions: ReadonlyMap<unknown, readonly JsonObject[]> = new Map();

  constructor(options: LaneRulesOptions) {
    this.#options = options;
    this.#log = limitedLog(options.log, options.nowMs);
  }

  get needsTools(): boolean {
    const { filter, argumentCheck, onListed } = this.#options;
    return filter !== undefined || argumentCheck !== undefined || onListed !== undefined;
  }

  wrap(exchange: Exchange, method: string, listAgain: () => void): Exchange {
    const { filter, resultLimit } = this.#options;
    if (method === "tools/list" && (filter !== undefined || resultLimit !== undefined))
      return new RewrittenExchange(exchange, (body) => this.#rewriteList(body, listAgain));
    // The result of `tasks/result` is that of a tool that runs as a task (MCP 2025-11-25, basic/utilities/tasks).
    const hasToolResult = method === "tools/call" || method === "tasks/result";
    return hasToolResult && resultLimit !== undefined ? new LimitedExchange(exchange, resultLimit) : exchange;
  }

  admit(caller: Caller, message: RequestMessage | NotificationMessage): SidecarError | CallLimits | undefined {
    if (message.method !== "tools/call") return undefined;
    // A server might execute a call without an id, and a rejection by the rules could not be reported.
    if (message.kind === "notification") return new SidecarError("INVALID_REQUEST", '"tools/call" has no "id". It was not sent.');
    const call = readCall(message);
    if ("problem" in call) return new SidecarError("INVALID_REQUEST", `${call.problem}. The call was not sent.`);
    const { name, argsText } = call;
    // A server that looks up the name as an object key takes `["search"]` for `"search"`; the rules would not.
    if (name === undefined) return toolNotFound(name);
    const { rates, limitsOf, argumentCheck } = this.#options;
    const error = this.#missing(name) ?? rates?.take(caller, name);
    if (error !== undefined || argumentCheck === undefined) return error ?? limitsOf?.(name);
    return { ...limitsOf?.(name), check: this.#checkOf(argumentCheck, { caller, toolName: name, argsText }) };
  }

  onTools(tools: readonly JsonObject[], generation: number): void {
    const { filter, argumentCheck, onListed } = this.#options;
    onListed?.(tools, generation);
    this.#names = visibleNames(tools, filter);
    this.#hiddenNames = visibleNames(tools, undefined).difference(this.#names);
    if (argumentCheck !== undefined) this.#definitions = Map.groupBy(tools, ({ name }) => name);
  }

  onLost(): void {
    this.#names = undefined;
  }

  review({ toolName }: Call, isSent: boolean): CallVerdict | undefined {
    const error = this.#missing(toolName);
    return error === undefined ? undefined : { error: isSent ? toolNotFound(toolName, true) : error };
  }

  /** @returns an error if clients may not call the tool; undefined if they may, or if the tools are not known yet. */
  #missing(toolName: string | undefined): SidecarError | undefined {
    if (this.#options.filter === undefined || this.#names === undefined) return undefined;
    return toolName !== undefined && this.#names.has(toolName) ? undefined : toolNotFound(toolName);
  }

  #rewriteList(body: string, listAgain: () => void): string | SidecarError {
    const { filter, resultLimit } = this.#options;
    // The sidecar does not read a longer list either, so that none of its tools could be called.
    const bytes = Buffer.byteLength(body);
    if (bytes > MAX_INTERNAL_RESULT_BYTES) return responseTooLarge("tools/list", bytes, MAX_INTERNAL_RESULT_BYTES);
    const isShown = (tool: JsonObject): boolean => {
      const name = tool["name"] as string;
      if (filter?.(tool) !== false) return !this.#hiddenNames.has(name);
      // Calls are checked by the previous list. It must be requested again, or the tool could still be called.
      if (this.#names?.has(name) === true) listAgain();
      return false;
    };
    const shown = filter === undefined ? body : filterToolsList(body, isShown);
    return resultLimit === undefined ? shown : withoutOutputSchemas(shown);
  }

  /** Returns the check of a call, which uses the tools that are known when it runs. */
  #checkOf(
    argumentCheck: Pick<ArgumentCheck, "check">,
    { caller, toolName, argsText }: { readonly caller: Caller; readonly toolName: string; readonly argsText: string | undefined },
  ): CallCheck {
    // A call with invalid arguments that is sent may return to the queue if the server exits without reading it. It is checked again then.
    let isCounted = false;
    return (onVerdict) => {
      let stop: (() => void) | undefined;
      const check = (): void => {
        const definitions = this.#definitions;
        const tools = definitions.get(toolName);
        if (tools === undefined) return onVerdict(undefined);
        stop = argumentCheck.check({ tools, argsText, caller }, (problems) => {
          // The server's tools have changed in the meantime.
          if (this.#definitions !== definitions) return check();
          if (problems.length === 0) return onVerdict(undefined);
          const verdict = this.#onProblems(toolName, problems, isCounted);
          isCounted = true;
          onVerdict(verdict);
        });
      };
      check();
      return () => stop?.();
    };
  }

  /** @returns the result that answers the call; undefined if the call is sent nevertheless. */
  #onProblems(toolName: string, problems: readonly string[], isCounted: boolean): CallVerdict | undefined {
    const { argumentCheckMode, counters } = this.#options;
    if (!isCounted) counters.policy.invalidArguments++;
    if (argumentCheckMode === "enforce") return { resultText: invalidArgumentsResult(toolName, problems) };
    if (isCounted) return undefined;
    const fields = { method: "tools/call", tool: shorten(toolName), count: problems.length, reason: problems[0] };
    this.#log.warn(fields, "arguments violate the schema");
    return undefined;
  }
}
