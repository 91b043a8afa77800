import type { Context } from "../context.ts";
import { shorten } from "../json/text.ts";
import { SidecarError } from "../mcp/errors.ts";
import { findAmbiguity, type JsonObject, type NotificationMessage, type RequestMessage, Slot } from "../mcp/message.ts";
import type { LogFields } from "../observe/log.ts";
import { responseTooLarge, toolNotFound } from "../server/failures.ts";
import type { Call, CallCheck, CallLimits, CallVerdict } from "../server/call.ts";
import { type LanePolicy, MAX_PAGE_BYTES, namesOf } from "../server/tools.ts";
import type { Transform } from "../session/reply.ts";
import type { Caller } from "../session/session.ts";
import { ArgumentCheck } from "./argument-check.ts";
import type { Descriptor } from "./descriptor.ts";
import { PinnedDescriptor } from "./drift.ts";
import { limitResult } from "./result-limit.ts";
import { CallRates, createToolLimits } from "./tool-limits.ts";
import { createToolFilter, filterToolsList, type ToolFilter, withoutOutputSchemas } from "./tools.ts";

/** MCP 2025-11-25, schema, CallToolRequestParams. */
const MEMBERS = { name: Slot.toolName, arguments: Slot.arguments, task: Slot.callTask } as const;

/** @returns a problem if the server may read the call differently. */
export function readCall({
  outline,
}: RequestMessage): { readonly name: string | undefined; readonly argsText: string | undefined } | { readonly problem: string } {
  const problem = findAmbiguity(outline, MEMBERS);
  if (problem !== undefined) return { problem };
  return { name: outline.stringAt(Slot.toolName), argsText: outline.textAt(Slot.arguments) };
}

/** For a model that can correct itself (MCP 2025-11-25, server/tools, error handling). @param problems one line a field. */
export function invalidArgumentsResult(toolName: string, problems: readonly string[]): string {
  const tool = JSON.stringify(shorten(toolName));
  const text = [
    `INVALID_ARGS: the arguments do not match the input schema of the tool ${tool}. The call was not sent to the server.`,
    ...problems.map((problem) => `- ${problem}`),
    "Correct the arguments and call the tool again.",
  ].join("\n");
  return JSON.stringify({ content: [{ type: "text", text }], isError: true });
}

/** Room for what is added to a result: its id, the framing of one event, and members for another revision. */
const ADDED_BYTES = 1024;

/** The cheapest rules come first. */
class LaneRules implements LanePolicy {
  readonly #context: Context;
  readonly #policy: ToolPolicy;
  readonly #lane: string | undefined;
  readonly #limitsOf: ReturnType<typeof createToolLimits>;
  /** Undefined while the server has not listed its tools. */
  #names: ReadonlySet<string> | undefined;
  #hiddenNames: ReadonlySet<string> = new Set();
  /** If several tools have one name, it is unknown which one the server calls. */
  #definitions: ReadonlyMap<unknown, readonly JsonObject[]> = new Map();

  constructor(context: Context, policy: ToolPolicy, lane: string | undefined) {
    this.#context = context;
    this.#policy = policy;
    this.#lane = lane;
    this.#limitsOf = createToolLimits(context.config);
  }

  get needsTools(): boolean {
    const { filter, argumentCheck, pinned } = this.#policy;
    return filter !== undefined || argumentCheck !== undefined || pinned !== undefined;
  }

  transformOf(method: string, listAgain: () => void): Transform | undefined {
    const { config, counters } = this.#context;
    const { maxResultBytes } = config;
    if (method === "tools/list" && (maxResultBytes !== undefined || this.#policy.filter !== undefined))
      return (text) => this.#rewriteList(text, listAgain);
    // The result of `tasks/result` is that of a tool that runs as a task (MCP 2025-11-25, basic/utilities/tasks).
    const hasToolResult = method === "tools/call" || method === "tasks/result";
    if (maxResultBytes === undefined || !hasToolResult) return undefined;
    const maxBytes = maxResultBytes - Math.min(ADDED_BYTES, maxResultBytes / 4);
    return (text, idText) => {
      const shortened = limitResult(text, idText, maxBytes);
      if (shortened !== undefined) counters.policy.truncatedResults++;
      return shortened ?? text;
    };
  }

  admit(caller: Caller, message: RequestMessage | NotificationMessage): SidecarError | CallLimits | undefined {
    const { filter, rates, argumentCheck } = this.#policy;
    // Without a rule about calls, they are not read.
    const hasRules = (filter ?? rates ?? argumentCheck ?? this.#limitsOf) !== undefined;
    if (message.method !== "tools/call" || !hasRules) return undefined;
    // A server might execute a call without an id, and a rejection by the rules could not be reported.
    if (message.kind === "notification") return new SidecarError("INVALID_REQUEST", '"tools/call" has no "id". It was not sent.');
    const call = readCall(message);
    if ("problem" in call) return new SidecarError("INVALID_REQUEST", `${call.problem}. The call was not sent.`);
    const { name } = call;
    // A server that looks up the name as an object key takes `["search"]` for `"search"`; the rules would not.
    if (name === undefined) return toolNotFound(name);
    const error = this.#missing(name) ?? rates?.take(caller, name);
    if (error !== undefined || argumentCheck === undefined) return error ?? this.#limitsOf?.(name);
    return { ...this.#limitsOf?.(name), check: this.#checkOf(argumentCheck, caller, name, call.argsText) };
  }

  onTools(tools: readonly JsonObject[], generation: number): void {
    const { argumentCheck, pinned } = this.#policy;
    pinned?.onTools(tools, this.#lane === undefined ? { generation } : { lane: this.#lane, generation });
    this.#names = this.#policy.visibleNames(tools);
    this.#hiddenNames = namesOf(tools, () => true).difference(this.#names);
    if (argumentCheck !== undefined) this.#definitions = Map.groupBy(tools, ({ name }) => name);
  }

  onLost(): void {
    this.#names = undefined;
  }

  review({ toolName }: Call, isSent: boolean): CallVerdict | undefined {
    const error = this.#missing(toolName);
    return error !== undefined && isSent ? toolNotFound(toolName, true) : error;
  }

  /** @returns undefined also if the tools are not known yet. */
  #missing(toolName: string | undefined): SidecarError | undefined {
    if (this.#policy.filter === undefined || this.#names === undefined) return undefined;
    return toolName !== undefined && this.#names.has(toolName) ? undefined : toolNotFound(toolName);
  }

  #rewriteList(body: string, listAgain: () => void): string | SidecarError {
    const { filter } = this.#policy;
    // The sidecar does not read a longer list either, so that none of its tools could be called.
    const bytes = Buffer.byteLength(body);
    if (bytes > MAX_PAGE_BYTES) return responseTooLarge("tools/list", bytes, MAX_PAGE_BYTES);
    const isShown = (tool: JsonObject): boolean => {
      const name = tool["name"] as string;
      if (filter?.(tool) !== false) return !this.#hiddenNames.has(name);
      // Calls are checked by the previous list. It must be requested again, or the tool could still be called.
      if (this.#names?.has(name) === true) listAgain();
      return false;
    };
    const shown = filter === undefined ? body : filterToolsList(body, isShown);
    return this.#context.config.maxResultBytes === undefined ? shown : withoutOutputSchemas(shown);
  }

  /** Uses the tools that are known when it runs. */
  #checkOf(argumentCheck: ArgumentCheck, caller: Caller, toolName: string, argsText: string | undefined): CallCheck {
    // A call that is sent nevertheless may return to the queue, and is checked again.
    let isCounted = false;
    return (onVerdict) => {
      let stop: (() => void) | undefined;
      const check = (): void => {
        const definitions = this.#definitions;
        const tools = definitions.get(toolName);
        if (tools === undefined) return onVerdict(undefined);
        stop = argumentCheck.check(tools, argsText, caller, (problems) => {
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

  /** @returns undefined if the call is sent nevertheless. */
  #onProblems(toolName: string, problems: readonly string[], isCounted: boolean): CallVerdict | undefined {
    const { config, counters } = this.#context;
    if (!isCounted) counters.policy.invalidArguments++;
    if (config.argumentCheck === "enforce") return { resultText: invalidArgumentsResult(toolName, problems) };
    if (isCounted) return undefined;
    const fields: LogFields = { method: "tools/call", tool: shorten(toolName), count: problems.length, reason: problems[0] };
    this.#context.limitedRequestLog.warn(fields, "arguments violate the schema");
    return undefined;
  }
}

/** The rules of all lanes. Each is undefined if it is off. */
export class ToolPolicy {
  readonly filter: ToolFilter | undefined;
  readonly rates: CallRates | undefined;
  readonly argumentCheck: ArgumentCheck | undefined;
  readonly pinned: PinnedDescriptor | undefined;

  constructor(context: Context, descriptor: Descriptor | undefined) {
    const { config } = context;
    const pinned = descriptor && new PinnedDescriptor(context, descriptor);
    this.pinned = pinned;
    this.filter = createToolFilter(config, pinned && config.descriptorMode === "enforce" ? (tool) => pinned.isPinned(tool) : undefined);
    const hasRates = config.sessionCallsPerMinute !== undefined || config.toolCallsPerMinute !== undefined;
    this.rates = hasRates ? new CallRates(context) : undefined;
    this.argumentCheck = config.argumentCheck === "off" ? undefined : new ArgumentCheck(context);
  }

  forLane(context: Context, lane?: string): LanePolicy {
    return new LaneRules(context, this, lane);
  }

  visibleNames(tools: readonly JsonObject[]): ReadonlySet<string> {
    return namesOf(tools, this.filter ?? (() => true));
  }

  get status(): object | undefined {
    return this.pinned && { descriptor: this.pinned.status };
  }
}
