import { createHash } from "node:crypto";
import { shorten } from "../json/text.ts";
import type { JsonObject } from "../jsonrpc/message.ts";
import type { Defects } from "../defects.ts";
import type { Log } from "../observability/log.ts";
import { CheckThread, type CheckFailure } from "./schema/check-thread.ts";
import type { SchemaReport } from "./schema/checker.ts";
import { RoundRobin } from "./schema/round-robin.ts";

const MAX_SCHEMAS = 1000;
/** Of all schemas that the thread has, as JSON, in UTF-16 units; compiled, they take fifty times as much. */
const MAX_KEPT_LENGTH = 1024 * 1024;
/** In UTF-16 units. A longer schema is not even looked through for the names of its properties. */
const MAX_SCHEMA_LENGTH = 4 * 1024 * 1024;
/** The arguments have to fit all tools of one name; each may have to be compiled first. */
const MAX_NAMESAKES = 4;
const MAX_CHECK_CPU_MS = 200;
const MAX_COMPILE_CPU_MS = 500;
/** A schema that has so many times taken too much to be compiled is not tried again. */
const MAX_STRIKES = 3;
const MAX_REASON_LENGTH = 500;

const NOT_CHECKED: readonly string[] = ["the arguments could not be checked"];

interface KeptSchema {
  readonly key: string;
  readonly length: number;
  /** The thread that has it; 0 for none. */
  generation: number;
  /** How often a thread had to be ended while it compiled the schema. */
  strikes: number;
  /** What cannot be used of it is in the log. */
  isLogged: boolean;
}

export interface ArgumentCheckOptions {
  readonly log: Log;
  readonly defects: Pick<Defects, "note" | "guard">;
  /** Called when a check was given up. */
  readonly onGivenUp: () => void;
}

/** The arguments of a call to be checked. */
export interface CheckedCall {
  /** All tools of the name, as the server lists them: the arguments have to fit each. At least one. */
  readonly tools: readonly JsonObject[];
  /** The JSON text as the client sent it; undefined if there is none, which is as good as `{}`. */
  readonly argsText: string | undefined;
  /** Calls of one caller are checked in their order; callers take turns. */
  readonly caller: object;
}

interface Question extends CheckedCall {
  /** Given what is wrong, one line a field; nothing if nothing is, or the schema cannot be used. */
  readonly onProblems: (problems: readonly string[]) => void;
  isStopped: boolean;
}

/**
 * Checks the arguments of calls against the `inputSchema` of the tool, in a thread of its own. One for all servers and
 * generations. A schema is compiled at its first call, and again after a new thread or an eviction.
 */
export class ArgumentCheck {
  readonly #options: ArgumentCheckOptions;
  readonly #thread = new CheckThread();
  readonly #questions = new RoundRobin<Question>();
  #isBusy = false;
  /** By the digest of its JSON, since a server that is started anew tells its tools anew. The longest unused one comes first. */
  readonly #kept = new Map<string, KeptSchema>();
  #keptLength = 0;
  /** Keys of schemas that the thread is to forget. */
  #forgotten: string[] = [];
  readonly #known = new WeakMap<JsonObject, KeptSchema>();

  constructor(options: ArgumentCheckOptions) {
    this.#options = options;
  }

  /** Starts the thread, so that the first call need not wait for it. */
  start(): void {
    this.#thread.start();
  }

  /** @returns a function that stops the check: then `onProblems` is not called. */
  check(call: CheckedCall, onProblems: Question["onProblems"]): () => void {
    const question: Question = { ...call, onProblems, isStopped: false };
    this.#questions.add(call.caller, question);
    if (!this.#isBusy) void this.#answerAll();
    return () => {
      question.isStopped = true;
      this.#questions.remove(call.caller, question);
    };
  }

  async #answerAll(): Promise<void> {
    this.#isBusy = true;
    for (let question = this.#questions.next(); question !== undefined; question = this.#questions.next()) {
      const { defects } = this.#options;
      const problems = await this.#answer(question).catch((error: unknown) => {
        defects.note("argument check", error);
        return ["the arguments could not be checked, since the sidecar failed"];
      });
      if (!question.isStopped) defects.guard("argument check", () => question.onProblems(problems));
    }
    this.#isBusy = false;
  }

  async #answer(question: Question): Promise<readonly string[]> {
    const { tools, argsText } = question;
    const keys: string[] = [];
    if (tools.length > MAX_NAMESAKES) return [`the server lists more than ${MAX_NAMESAKES} tools of this name`];
    for (const { inputSchema, name } of tools) {
      if (question.isStopped) return NOT_CHECKED;
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

  /** Tells the thread a schema. Only the server has a say in what that takes, so the schema is at fault if it takes too much. */
  async #add(schema: KeptSchema, inputSchema: unknown, toolName: unknown): Promise<CheckFailure | undefined> {
    if (schema.strikes >= MAX_STRIKES) return undefined;
    if (schema.length === 0) return this.#logProblems(schema, toolName, { problem: "it is nested too many levels deep", unchecked: [] });
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
    // The clock alone says more of the machine than of the schema.
    if (outcome.exceededLimit === "cpu time" || outcome.exceededLimit === "memory") schema.strikes++;
    if (schema.strikes < MAX_STRIKES) return outcome;
    return this.#logProblems(schema, toolName, { problem: `it takes too long: ${outcome.reason}`, unchecked: [] });
  }

  #giveUp({ exceededLimit, reason }: CheckFailure, toolName: unknown): readonly string[] {
    const { log, onGivenUp } = this.#options;
    onGivenUp();
    log.warn({ tool: shownName(toolName), reason: shorten(reason, MAX_REASON_LENGTH) }, "argument check given up");
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

  /** Moves it to the end of the line of those that go when there are too many. */
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

/** The same for the same schema; empty for one that is nested too deeply to have a text. */
function textOf(inputSchema: unknown): string {
  try {
    return JSON.stringify(inputSchema);
  } catch {
    return "";
  }
}
