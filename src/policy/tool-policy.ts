import { shorten } from "../json/text.ts";
import { SidecarError } from "../mcp/errors.ts";
import { findOtherCase, findRepeated, type JsonObject, type NotificationMessage, type RequestMessage, Slot } from "../mcp/message.ts";
import type { Counters } from "../observe/counters.ts";
import { Defects, limitedLog, type Log } from "../observe/log.ts";
import type { Call } from "../server/call.ts";
import type { LanePolicy } from "../server/dispatch.ts";
import { responseTooLarge, toolNotFound } from "../server/failures.ts";
import { MAX_INTERNAL_RESULT_BYTES } from "../server/internal-calls.ts";
import { type CallCheck, type CallLimits, type CallVerdict, ToolSemaphore } from "../server/slots.ts";
import { type Caller, type Exchange, RewrittenExchange } from "../session/session.ts";
import { ArgumentCheck } from "./argument-check.ts";
import { type CallRates, type CallRatesSettings, createCallRates } from "./call-rates.ts";
import type { PinnedDescriptor } from "./pinned-descriptor.ts";
import { LimitedExchange, type ResultLimit } from "./result-limit.ts";
import { createToolFilter, filterToolsList, findByName, type ToolFilter, ToolStates, visibleNames, withoutOutputSchemas } from "./tools.ts";
import type { ArgumentCheckMode } from "../config/options.ts";
import type { ToolNumber } from "../config/option.ts";

/** The members of a `tools/call` (MCP 2025-11-25, schema, CallToolRequestParams). */
const MEMBERS = { name: Slot.toolName, arguments: Slot.arguments, task: Slot.callTask } as const;

/** The parameters of a `tools/call`. */
export interface ToolCall {
  /** Undefined if absent or not a string. */
  readonly name: string | undefined;
  /** JSON of any type; undefined if absent. */
  readonly argsText: string | undefined;
}

/** A call that the server may read differently than the sidecar. */
export interface AmbiguousCall {
  /** Describes the problem to the sender. */
  readonly problem: string;
}

/** Reads `params` of a `tools/call`. */
export function readCall({ outline }: RequestMessage): ToolCall | AmbiguousCall {
  const repeated = findRepeated(outline, MEMBERS);
  if (repeated !== undefined) return { problem: `"${repeated}" occurs twice in "params"` };
  const spelled = findOtherCase(outline, MEMBERS);
  if (spelled !== undefined) return { problem: `${JSON.stringify(spelled)} in "params" differs only in case from a name of the protocol` };
  return { name: outline.stringAt(Slot.toolName), argsText: outline.textAt(Slot.arguments) };
}

/**
 * Returns the result of a call that is not sent, for a model that can correct itself.
 *
 * @param problems one line a field.
 * @returns the JSON text of a CallToolResult with `isError` (MCP 2025-11-25, server/tools, error handling).
 */
export function invalidArgumentsResult(toolName: string, problems: readonly string[]): string {
  const tool = JSON.stringify(shorten(toolName));
  const text = [
    `INVALID_ARGS: the arguments do not match the input schema of the tool ${tool}. The call was not sent to the server.`,
    ...problems.map((problem) => `- ${problem}`),
    "Correct the arguments and call the tool again.",
  ].join("\n");
  return JSON.stringify({ content: [{ type: "text", text }], isError: true });
}

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
class LaneRules implements LanePolicy {
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

interface ToolPolicySettings extends CallRatesSettings, ToolLimitsSettings {
  readonly allowTools: readonly string[] | undefined;
  readonly denyTools: readonly string[] | undefined;
  readonly readOnly: boolean;
  readonly argumentCheck: ArgumentCheckMode;
  readonly maxResultBytes: number | undefined;
  readonly keepAliveMs: number;
}

export interface ToolPolicyOptions {
  readonly settings: ToolPolicySettings;
  readonly counters: Counters;
  readonly log: Log;
  /** Undefined if no descriptor is pinned. */
  readonly pinned: PinnedDescriptor | undefined;
  /** Reads a monotonic clock. */
  readonly nowMs: () => number;
}

/** The operator's rules about tools, for all lanes: visible tools, their arguments, rates, limits, and the size of results. */
export class ToolPolicy {
  readonly #pinned: PinnedDescriptor | undefined;
  readonly #argumentCheck: ArgumentCheck | undefined;
  /** The rules that all lanes share. */
  readonly #rules: Omit<LaneRulesOptions, "log">;
  readonly #createLimitsOf: ReturnType<typeof createToolLimits>;

  constructor({ settings, counters, log, pinned, nowMs }: ToolPolicyOptions) {
    const { argumentCheck: argumentCheckMode, maxResultBytes: maxBytes, keepAliveMs } = settings;
    const isPinned = pinned?.mode === "enforce" ? pinned.isPinned.bind(pinned) : undefined;
    const onGivenUp = (): void => void counters.policy.argumentChecksGivenUp++;
    const onTruncated = (): void => void counters.policy.truncatedResults++;
    this.#pinned = pinned;
    this.#argumentCheck =
      argumentCheckMode === "off" ? undefined : new ArgumentCheck({ log, defects: new Defects(log, counters), onGivenUp, nowMs });
    this.#createLimitsOf = createToolLimits(settings);
    this.#rules = {
      filter: createToolFilter({ ...settings, isPinned }),
      rates: createCallRates({ ...settings, nowMs }),
      argumentCheck: this.#argumentCheck,
      argumentCheckMode,
      resultLimit: maxBytes === undefined ? undefined : { maxBytes, keepAliveMs, nowMs, onTruncated },
      counters,
      nowMs,
    };
  }

  /** Starts the argument check, which takes some time. */
  start(): void {
    this.#argumentCheck?.start();
  }

  /** Creates the policy of one lane. @param lane the name of a private lane in the log. */
  forLane(log: Log, lane?: string): LanePolicy {
    const pinned = this.#pinned;
    const fields = lane === undefined ? {} : { lane };
    const onListed = (tools: readonly JsonObject[], generation: number): void => pinned?.onTools(tools, { ...fields, generation });
    return new LaneRules({
      ...this.#rules,
      limitsOf: this.#createLimitsOf?.(),
      onListed: pinned === undefined ? undefined : onListed,
      log,
    });
  }

  /** Returns the names of the listed tools that clients can see. */
  visibleNames(tools: readonly JsonObject[]): ReadonlySet<string> {
    return visibleNames(tools, this.#rules.filter);
  }

  /** The fields for `/status`; undefined if there are none. */
  get status(): object | undefined {
    return this.#pinned === undefined ? undefined : { descriptor: this.#pinned.status };
  }
}
