import { createHash } from "node:crypto";
import { shorten } from "../../json/text.ts";
import type { JsonObject } from "../../protocol/message.ts";
import type { Defects } from "../../observability/defects.ts";
import type { Log } from "../../observability/log.ts";
import { limitedLog } from "../../observability/log-limiter.ts";
import { CheckThread, type CheckFailure } from "./check-thread.ts";
import type { SchemaReport } from "./checker.ts";
import { RoundRobin } from "./round-robin.ts";

const MAX_SCHEMAS = 1000;
/** The length of all schemas in the thread, as JSON, in UTF-16 units. Compiled schemas take fifty times as much memory. */
const MAX_KEPT_LENGTH = 1024 * 1024;
/** The greatest length in UTF-16 units. A longer schema is not used at all, not even for the names of its properties. */
const MAX_SCHEMA_LENGTH = 4 * 1024 * 1024;
/** The arguments must match the schemas of all tools with the name, and each may have to be compiled first. */
const MAX_NAMESAKES = 4;
const MAX_CHECK_CPU_MS = 200;
const MAX_COMPILE_CPU_MS = 500;
/** A schema whose compilation has exceeded the limits this many times is not compiled again. */
const MAX_STRIKES = 3;
const MAX_REASON_LENGTH = 500;

const NOT_CHECKED: readonly string[] = ["the arguments could not be checked"];

interface KeptSchema {
  readonly key: string;
  readonly length: number;
  /** The generation of the thread that has the schema; 0 for none. */
  generation: number;
  /** The number of compilations that exceeded the limits. */
  strikes: number;
  /** True if its unusable parts are logged. */
  isLogged: boolean;
}

export interface ArgumentCheckOptions {
  readonly log: Log;
  readonly defects: Pick<Defects, "note" | "guard">;
  /** Called when a check is given up. */
  readonly onGivenUp: () => void;
  readonly nowMs: () => number;
}

/** A call whose arguments are to be checked. */
export interface CheckedCall {
  /** All tools with the name, at least one. The arguments must match the schema of each. */
  readonly tools: readonly JsonObject[];
  /** The JSON text from the client; undefined if absent, which counts as `{}`. */
  readonly argsText: string | undefined;
  /** Calls of one caller are checked in order; callers take turns. */
  readonly caller: object;
}

interface Check extends CheckedCall {
  /** Called with the problems, one line a field; empty if the arguments are valid or the schema is unusable. */
  readonly onProblems: (problems: readonly string[]) => void;
  isStopped: boolean;
}

/**
 * Checks the arguments of calls against the `inputSchema` of the tool, in a worker thread. One instance serves all servers and generations.
 * A schema is compiled at its first call, and again in a new thread or after an eviction.
 */
export class ArgumentCheck {
  readonly #options: ArgumentCheckOptions;
  readonly #log: Log;
  readonly #thread = new CheckThread();
  readonly #checks = new RoundRobin<Check>();
  #isBusy = false;
  /** The schemas by the digest of their JSON, because a restarted server lists its tools again. The least recently used comes first. */
  readonly #kept = new Map<string, KeptSchema>();
  #keptLength = 0;
  /** Keys of schemas that the thread must forget. */
  #forgotten: string[] = [];
  readonly #known = new WeakMap<JsonObject, KeptSchema>();

  constructor(options: ArgumentCheckOptions) {
    this.#options = options;
    this.#log = limitedLog(options.log, options.nowMs);
  }

  /** Starts the thread, so that the first call does not wait for it. */
  start(): void {
    this.#thread.start();
  }

  /** Queues a check. @returns a function that cancels it, so that `onProblems` is not called. */
  check(call: CheckedCall, onProblems: Check["onProblems"]): () => void {
    const check: Check = { ...call, onProblems, isStopped: false };
    this.#checks.add(call.caller, check);
    if (!this.#isBusy) void this.#runAll();
    return () => {
      check.isStopped = true;
      this.#checks.remove(call.caller, check);
    };
  }

  async #runAll(): Promise<void> {
    this.#isBusy = true;
    for (let check = this.#checks.next(); check !== undefined; check = this.#checks.next()) {
      const { defects } = this.#options;
      const problems = await this.#run(check).catch((error: unknown) => {
        defects.note("argument check", error);
        return ["the arguments could not be checked because of a defect of the sidecar"];
      });
      if (!check.isStopped) defects.guard("argument check", () => check.onProblems(problems));
    }
    this.#isBusy = false;
  }

  async #run(check: Check): Promise<readonly string[]> {
    const { tools, argsText } = check;
    const keys: string[] = [];
    if (tools.length > MAX_NAMESAKES) return [`the server lists more than ${MAX_NAMESAKES} tools of this name`];
    for (const { inputSchema, name } of tools) {
      if (check.isStopped) return NOT_CHECKED;
      if (inputSchema === undefined) continue;
      const schema = this.#schemaOf(inputSchema);
      if (schema.generation === 0 || schema.generation !== this.#thread.generation) {
        const failure = await this.#add(schema, inputSchema, name);
        if (failure !== undefined) return this.#giveUp(failure, name);
      }
      keys.push(schema.key);
    }
    const outcome = await this.#thread.run({ kind: "check", keys, argsText }, MAX_CHECK_CPU_MS);
    if (outcome.kind === "failed") return this.#giveUp(outcome, tools[0]?.["name"]);
    return outcome.kind === "checked" ? outcome.problems : NOT_CHECKED;
  }

  /** Adds a schema to the thread. Its cost depends only on the server, so the schema is at fault if it exceeds the limits. */
  async #add(schema: KeptSchema, inputSchema: unknown, toolName: unknown): Promise<CheckFailure | undefined> {
    if (schema.strikes >= MAX_STRIKES) return undefined;
    if (schema.length === 0) return this.#logProblems(schema, toolName, { problem: "it has too many levels", unchecked: [] });
    if (schema.length > MAX_SCHEMA_LENGTH)
      return this.#logProblems(schema, toolName, { problem: `it is longer than ${MAX_SCHEMA_LENGTH} characters`, unchecked: [] });
    const forget = this.#forgotten;
    this.#forgotten = [];
    const outcome = await this.#thread.run({ kind: "add", key: schema.key, schemaText: textOf(inputSchema), forget }, MAX_COMPILE_CPU_MS);
    if (outcome.kind === "added") {
      schema.generation = this.#thread.generation;
      return this.#logProblems(schema, toolName, outcome.report);
    }
    if (outcome.kind !== "failed") return undefined;
    // The elapsed time alone depends more on the machine than on the schema.
    if (outcome.exceededLimit === "cpu time" || outcome.exceededLimit === "memory") schema.strikes++;
    if (schema.strikes < MAX_STRIKES) return outcome;
    return this.#logProblems(schema, toolName, { problem: `it takes too long: ${outcome.reason}`, unchecked: [] });
  }

  #giveUp({ exceededLimit, reason }: CheckFailure, toolName: unknown): readonly string[] {
    this.#options.onGivenUp();
    this.#log.warn({ tool: shownName(toolName), reason: shorten(reason, MAX_REASON_LENGTH) }, "argument check given up");
    if (exceededLimit === undefined) return NOT_CHECKED;
    return [`the arguments take too ${exceededLimit === "memory" ? "much memory" : "long"} to be checked`];
  }

  #schemaOf(inputSchema: unknown): KeptSchema {
    const isObject = typeof inputSchema === "object" && inputSchema !== null;
    const known = isObject ? this.#known.get(inputSchema as JsonObject) : undefined;
    if (known !== undefined && this.#kept.get(known.key) === known) {
      this.#use(known);
      return known;
    }
    const text = textOf(inputSchema);
    const key = createHash("sha256").update(text).digest("base64");
    const schema = this.#kept.get(key) ?? { key, length: text.length, generation: 0, strikes: 0, isLogged: false };
    if (isObject) this.#known.set(inputSchema as JsonObject, schema);
    this.#use(schema);
    return schema;
  }

  /** Marks a schema as the most recently used one, and evicts others if there are too many. */
  #use(schema: KeptSchema): void {
    if (!this.#kept.delete(schema.key)) this.#keptLength += schema.length;
    this.#kept.set(schema.key, schema);
    for (const oldest of this.#kept.values()) {
      if (oldest === schema || (this.#kept.size <= MAX_SCHEMAS && this.#keptLength <= MAX_KEPT_LENGTH)) return;
      this.#kept.delete(oldest.key);
      this.#keptLength -= oldest.length;
      if (oldest.generation === this.#thread.generation) this.#forgotten.push(oldest.key);
      oldest.generation = 0;
    }
  }

  #logProblems(schema: KeptSchema, toolName: unknown, { problem, unchecked }: SchemaReport): undefined {
    if (schema.isLogged) return;
    schema.isLogged = true;
    const { log } = this.#options;
    const tool = shownName(toolName);
    if (problem !== undefined) log.warn({ tool, reason: shorten(problem, MAX_REASON_LENGTH) }, "argument schema skipped");
    else if (unchecked.length > 0) {
      log.warn({ tool, count: unchecked.length, reason: shorten(unchecked.join("; "), MAX_REASON_LENGTH) }, "argument patterns skipped");
    }
  }
}

function shownName(toolName: unknown): string {
  return shorten(String(toolName));
}

/** Returns the JSON text of a schema; empty if it is nested too deeply. */
function textOf(inputSchema: unknown): string {
  try {
    return JSON.stringify(inputSchema);
  } catch {
    return "";
  }
}
