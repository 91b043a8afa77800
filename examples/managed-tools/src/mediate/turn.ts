import { isJsonObject, type JsonObject, type Manifest } from "../manifest.ts";
import type { HiddenRounds } from "./continuity.ts";
import type { Executor } from "./execute.ts";
import { type Format, type ModelReply, objectsIn, sumOf, type ToolCall, type ToolResult, type Usage, withIds } from "./format.ts";
import { parseJson } from "./json.ts";
import { readText } from "./read-text.ts";
import { failure, outcomeText, type Outcome } from "./results.ts";
import type { TracedCall, TracedRound } from "./trace.ts";
import { WireTools } from "./wire-names.ts";

const MAX_RESPONSE_BYTES = 32 * 1024 * 1024;
/** Log probabilities have hundreds for each token. */
const MAX_RESPONSE_VALUES = 2_000_000;
/** Calls in one response of the model. */
const MAX_CALLS = 128;
/** Names that are shown for one that does not exist. */
const MAX_SHOWN_NAMES = 50;

/** The model's response to the runner, or the error instead. */
export interface TurnEnd {
  readonly status: number;
  readonly body: JsonObject;
  /** Headers of the model's provider, of an error only. */
  readonly headers?: Headers;
  /** True for an error after calls were made. A retry of the runner would make them again. */
  readonly isFinal?: boolean;
  readonly ending: string;
}

export interface TurnOptions {
  /** Of the runner. Others do not get its hidden rounds. */
  readonly credentials: string;
  readonly format: Format;
  readonly manifest: Manifest;
  /** The request of the runner. */
  readonly body: JsonObject;
  /** Sends a request to the model. */
  readonly ask: (body: JsonObject, signal: AbortSignal) => Promise<Response>;
  readonly executor: Pick<Executor, "execute">;
  readonly hiddenRounds: HiddenRounds;
  /** Aborts when the runner leaves. */
  readonly signal: AbortSignal;
}

/** What happens to the calls of one response. */
type Plan =
  | { readonly kind: "answer" }
  /** Only the managed calls at the beginning; the runner's come after them, in a later response. */
  | { readonly kind: "execute"; readonly calls: readonly ToolCall[] }
  /** The runner's calls come first, and cannot be executed here. */
  | { readonly kind: "reject" };

/** One turn of a runner: the model is asked until it answers, or calls tools of the runner. */
export class Turn {
  readonly rounds: TracedRound[] = [];
  readonly #options: TurnOptions;
  readonly #tools: WireTools;
  readonly #runnerTools: ReadonlySet<string>;
  /** The messages of the runner's request. */
  readonly #visible: readonly JsonObject[];
  /** The rounds that the runner does not see. */
  readonly #hidden: JsonObject[] = [];
  readonly #usages: Usage[] = [];
  /** Of all calls in hidden rounds. */
  readonly #callIds = new Set<string>();
  /** The round of each call that was executed, and the number of times that it was repeated. */
  readonly #executed = new Map<string, { readonly round: number; count: number }>();

  constructor(options: TurnOptions) {
    this.#options = options;
    this.#tools = new WireTools(options.manifest);
    this.#runnerTools = new Set(options.format.runnerTools(options.body));
    this.#visible = objectsIn(options.body["messages"]);
  }

  async run(): Promise<TurnEnd> {
    const { format, manifest, body, hiddenRounds, signal } = this.#options;
    const conflict = this.#tools.tools.find(({ name }) => this.#runnerTools.has(name));
    if (conflict !== undefined) return this.#end(400, "conflict", `The runner and the pod both have a tool ${conflict.name}.`);
    if (format.name === "openai" && body["n"] !== undefined && body["n"] !== 1)
      return this.#end(400, "invalid", "n must be 1 if tools are executed for the model.");
    const { total_timeout_ms: totalMs } = manifest.policy;
    const limit = AbortSignal.any([signal, AbortSignal.timeout(totalMs)]);
    try {
      const conversation = hiddenRounds.restore(this.#owner, format, this.#visible);
      for (;;) {
        const end = await this.#round(conversation, limit);
        if (end !== undefined) return end;
      }
    } catch (error) {
      if (signal.aborted) return this.#end(499, "disconnected", "The runner has disconnected.");
      if (limit.aborted) return this.#end(502, "total_timeout", `The turn took more than ${totalMs} ms.`);
      const { message, cause } = error as Error;
      return this.#end(502, "internal", cause instanceof Error ? `${message}: ${cause.message}` : message);
    }
  }

  /** Asks the model, and executes its calls. @returns the end of the turn, if this was its last round. */
  async #round(conversation: readonly JsonObject[], signal: AbortSignal): Promise<TurnEnd | undefined> {
    const { format, manifest, body, ask, hiddenRounds } = this.#options;
    const messages = [...conversation, ...this.#hidden];
    const response = await ask(format.prepare(body, messages, this.#tools.tools, this.rounds.length > 0), signal);
    const { text, isComplete } = await readText(response, MAX_RESPONSE_BYTES);
    if (!isComplete) return this.#end(502, "model_error", `The response of the model has more than ${MAX_RESPONSE_BYTES} bytes.`);
    const parsed = parseJson(text, MAX_RESPONSE_VALUES);
    const json = isJsonObject(parsed) ? parsed : undefined;
    if (response.status >= 300 && response.status < 400)
      return this.#end(502, "model_error", `The model redirects to ${response.headers.get("location")}. MODEL_URL must be its address.`);
    if (!response.ok) {
      const { status, headers } = response;
      const error = isJsonObject(json?.["error"]) ? json : format.error(status, text);
      return { status, body: error, headers, ending: "model_error", isFinal: this.rounds.length > 0 };
    }
    const answer = json === undefined ? undefined : format.read(json);
    if (json === undefined || answer === undefined) return this.#end(502, "model_error", "The response of the model cannot be read.");
    if (answer.calls.length > MAX_CALLS) return this.#end(502, "model_error", `The model calls more than ${MAX_CALLS} tools at once.`);
    this.#usages.push(answer.usage);
    const plan = this.#planFor(answer.calls);
    if (plan.kind === "answer") {
      hiddenRounds.keep(this.#owner, format, this.#visible, answer.message, this.#hidden);
      const ending = answer.calls.length > 0 ? "native_tool_calls" : "answer";
      return { status: 200, body: this.#hidden.length > 0 ? format.withUsage(json, sumOf(this.#usages)) : json, ending };
    }
    const { max_rounds: maxRounds } = manifest.policy;
    if (this.rounds.length >= maxRounds) return this.#end(502, "max_rounds", `The model called tools in more than ${maxRounds} rounds.`);
    if (plan.kind === "execute") await this.#execute(answer, plan.calls, signal);
    else this.#reject(answer);
    return undefined;
  }

  /** The user in either format. */
  get #owner(): string {
    const { body, credentials } = this.#options;
    return JSON.stringify([
      credentials,
      body["user"],
      body["safety_identifier"],
      isJsonObject(body["metadata"]) ? body["metadata"]["user_id"] : null,
    ]);
  }

  #planFor(calls: readonly ToolCall[]): Plan {
    const firstNative = calls.findIndex(({ name }) => this.#runnerTools.has(name));
    if (firstNative === -1) return calls.length === 0 ? { kind: "answer" } : { kind: "execute", calls };
    if (firstNative > 0) return { kind: "execute", calls: calls.slice(0, firstNative) };
    return calls.every(({ name }) => this.#runnerTools.has(name)) ? { kind: "answer" } : { kind: "reject" };
  }

  async #execute(answer: ModelReply, planned: readonly ToolCall[], signal: AbortSignal): Promise<void> {
    const { format, manifest } = this.#options;
    const calls = this.#identify(planned);
    const results: ToolResult[] = [];
    const traced: TracedCall[] = [];
    this.rounds.push({ round: this.rounds.length + 1, tool_calls: traced, round_usage: answer.usage });
    // One after the other: a later call may rely on the effect of an earlier one.
    for (const call of calls) {
      const startMs = performance.now();
      const { outcome, facts } = await this.#outcomeOf(call, signal);
      const text = withoutTokens(outcomeText(outcome, manifest.policy.max_tool_result_bytes), manifest);
      results.push({ call, text, isError: !outcome.ok });
      const result: unknown = JSON.parse(text);
      traced.push({ arguments: call.args, result, latency_ms: Math.round(performance.now() - startMs), ...facts });
      // The turn has ended, but the call may have taken effect, so it is in the trace.
      signal.throwIfAborted();
    }
    this.#hide(format.withCalls(answer.message, calls), results);
  }

  async #outcomeOf(call: ToolCall, signal: AbortSignal): Promise<{ readonly outcome: Outcome; readonly facts: Traced }> {
    const { manifest, executor } = this.#options;
    const round = this.rounds.length;
    const tool = this.#tools.find(call.name);
    if (tool === undefined) {
      const outcome = failure("unknown_tool", `There is no tool ${call.name}.`, {
        tools: this.#tools.tools.slice(0, MAX_SHOWN_NAMES).map(({ name }) => name),
      });
      return { outcome, facts: { name: call.name, service: null } };
    }
    const facts = { name: tool.name, service: tool.execution.service };
    const key = `${tool.name} ${canonical(call.args)}`;
    const first = this.#executed.get(key);
    if (first !== undefined) {
      const details = { original_round: first.round, duplicate_count: ++first.count };
      const message = `This call has been made in round ${first.round}, and its result is above. It was not made again.`;
      return { outcome: failure("duplicate_tool_call", message, details), facts: { ...facts, ...details } };
    }
    const outcome = await executor.execute(tool, call.args, manifest.policy.timeout_per_tool_ms, signal);
    if (outcome.ok || outcome.error["sent"] !== false) this.#executed.set(key, { round, count: 0 });
    return { outcome, facts };
  }

  #identify(calls: readonly ToolCall[]): ToolCall[] {
    const identified = withIds(calls, this.#callIds);
    for (const { id } of identified) this.#callIds.add(id);
    return identified;
  }

  #reject(answer: ModelReply): void {
    const message = "Nothing was called. Call tools of services first, in a response without other tools; then call the others.";
    const rejection = failure("mixed_tool_calls", message);
    const text = outcomeText(rejection, this.#options.manifest.policy.max_tool_result_bytes);
    const calls = this.#identify(answer.calls);
    const traced = calls.map(({ name, args }) => ({ name, service: null, arguments: args, result: rejection, latency_ms: 0 }));
    this.rounds.push({ round: this.rounds.length + 1, tool_calls: traced, round_usage: answer.usage });
    this.#hide(
      this.#options.format.withCalls(answer.message, calls),
      calls.map((call) => ({ call, text, isError: true })),
    );
  }

  #hide(message: JsonObject, results: readonly ToolResult[]): void {
    this.#hidden.push(message, ...this.#options.format.results(results));
  }

  #end(status: number, ending: string, message: string): TurnEnd {
    return { status, body: this.#options.format.error(status, message), ending, isFinal: this.rounds.length > 0 };
  }
}

/** A service may answer with the headers that it got. */
function withoutTokens(text: string, { tools }: Manifest): string {
  const tokens = new Set(tools.flatMap(({ execution }) => (execution.auth === undefined ? [] : [execution.auth.token])));
  return [...tokens].reduce((masked, token) => masked.replaceAll(JSON.stringify(token).slice(1, -1), "***"), text);
}

type Traced = Omit<TracedCall, "arguments" | "result" | "latency_ms">;

/** Returns JSON with sorted names: the order in which a model writes arguments means nothing. */
function canonical(value: unknown): string {
  const sorted = (_key: string, each: unknown): unknown =>
    typeof each === "object" && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : each;
  return JSON.stringify(value, sorted);
}
