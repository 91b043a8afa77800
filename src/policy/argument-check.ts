import { createHash } from "node:crypto";
import { describeError } from "../errors.ts";
import { isJsonObject, type JsonObject } from "../jsonrpc/message.ts";
import type { Log } from "../observability/log.ts";
import { relevantViolations } from "./schema/branches.ts";
import type { CompiledSchema, SchemaCompiler, Validate } from "./schema/schema-compiler.ts";
import { surveySchema } from "./schema/schema-survey.ts";
import { shortened } from "./schema/value-path.ts";
import type { Violation } from "./schema/violation.ts";
import { TooMuchWorkError, WorkLimit } from "./schema/work-limit.ts";
import { describeViolation } from "./schema/wording.ts";

const MAX_SCHEMAS = 1000;
/** Of all schemas that are kept, as JSON; what they are compiled to takes many times of it. */
const MAX_KEPT_LENGTH = 8 * 1024 * 1024;
const LENGTH_OF_INSTRUCTION = 20;
/** Some tens of milliseconds; at worst, a few hundred. */
const MAX_STEPS = 5_000_000;
/** To find all violations, not the first one only; each takes memory. */
const MAX_STEPS_FOR_ALL = 50_000;
const MAX_PROBLEMS = 20;
const MAX_PROBLEM_LENGTH = 500;
const MAX_TOOL_NAME_LENGTH = 100;
/** Deeper arguments may exhaust the stack, since a large schema takes much of it for each level; with others, it goes round in circles. */
const MAX_PLAIN_DEPTH = 8;

const NO_PROBLEMS: readonly string[] = [];

interface KeptSchema {
  readonly key: string;
  readonly length: number;
  /** Undefined where it cannot be used. */
  validate: Validate | undefined;
  /** Finds all violations. Compiled with the first one. */
  validateAll?: Validate | undefined;
  isKept: boolean;
}

/**
 * Checks the arguments of calls against the `inputSchema` of the tool. One for all servers and generations: a schema is compiled at the
 * first call, and again only when it was forgotten for others.
 */
export class ArgumentCheck {
  readonly #log: Log;
  readonly #work = new WorkLimit();
  #compiler: SchemaCompiler | undefined;
  /** By the digest of its JSON, since a server that is started anew tells its tools anew. The longest unused one comes first. */
  readonly #kept = new Map<string, KeptSchema>();
  #keptLength = 0;
  readonly #known = new WeakMap<JsonObject, KeptSchema>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** The validator is loaded apart, since it takes longer than the rest of the policy: to be done before the first call is checked. */
  async load(): Promise<void> {
    const compiler = await import("./schema/schema-compiler.ts");
    this.#compiler = new compiler.SchemaCompiler(this.#work);
  }

  /**
   * Never throws.
   *
   * @param tool as its server lists it
   * @param args as the client sent them; undefined where it sent none, which is as good as `{}`
   * @returns what is wrong, one line a field; empty where nothing is, or the schema cannot be used
   */
  problems(tool: JsonObject, args: unknown): readonly string[] {
    if (args !== undefined && !isJsonObject(args)) return ["the arguments must be an object"];
    const { inputSchema } = tool;
    if (inputSchema === undefined) return NO_PROBLEMS;
    const value = args ?? {};
    const schema = this.#schemaOf(inputSchema, tool["name"]);
    if (schema.validate === undefined) return NO_PROBLEMS;
    try {
      this.#work.begin(MAX_STEPS);
      if (schema.validate(value)) return NO_PROBLEMS;
    } catch (error) {
      if (error instanceof TooMuchWorkError) return ["the arguments are too large, or repeat themselves too often, to be checked"];
      if (error instanceof RangeError && isDeep(value)) return ["the arguments are nested too deeply"];
      schema.validate = undefined;
      this.#skip(tool["name"], `it fails: ${describeError(error)}`);
      return NO_PROBLEMS;
    }
    return linesOf(this.#violations(schema, inputSchema as JsonObject, value), value);
  }

  /** All violations, or the first one where there may be too many. */
  #violations(schema: KeptSchema, inputSchema: JsonObject, value: JsonObject): readonly Violation[] {
    const first = schema.validate?.errors ?? [];
    try {
      schema.validateAll ??= this.#compileWith(inputSchema, true).validate;
      this.#work.begin(MAX_STEPS_FOR_ALL);
      return schema.validateAll(value) ? first : (schema.validateAll.errors ?? first);
    } catch {
      return first;
    } finally {
      // What is wrong refers to the arguments.
      for (const validate of [schema.validate, schema.validateAll]) if (validate !== undefined) validate.errors = null;
    }
  }

  #schemaOf(inputSchema: unknown, toolName: unknown): KeptSchema {
    const known = isJsonObject(inputSchema) ? this.#known.get(inputSchema) : undefined;
    if (known?.isKept === true) {
      this.#use(known);
      return known;
    }
    const text = textOf(inputSchema);
    const key = createHash("sha256").update(text).digest("base64");
    const schema = this.#kept.get(key) ?? this.#compile(inputSchema, toolName, key, text.length);
    if (isJsonObject(inputSchema)) this.#known.set(inputSchema, schema);
    this.#use(schema);
    return schema;
  }

  #compile(inputSchema: unknown, toolName: unknown, key: string, length: number): KeptSchema {
    try {
      if (!isJsonObject(inputSchema)) throw new Error("it is no object");
      const { problem, canLeaveOut } = surveySchema(inputSchema, length);
      if (problem !== undefined) throw new Error(problem);
      const compiled = this.#compileWith(inputSchema, false);
      if (!canLeaveOut && compiled.unchecked[0] !== undefined)
        throw new Error(`a pattern of it cannot be checked: ${compiled.unchecked[0]}`);
      this.#tellUnchecked(compiled, toolName);
      return { key, length: length + LENGTH_OF_INSTRUCTION * compiled.patternsSize, validate: compiled.validate, isKept: true };
    } catch (error) {
      this.#skip(toolName, describeError(error));
      return { key, length: 0, validate: undefined, isKept: true };
    }
  }

  #compileWith(inputSchema: JsonObject, findsAll: boolean): CompiledSchema {
    if (this.#compiler === undefined) throw new Error("the validator is not loaded");
    this.#work.begin(MAX_STEPS);
    return this.#compiler.compile(inputSchema, findsAll);
  }

  /** Moves it to the end of the line of those that go when there are too many. */
  #use(schema: KeptSchema): void {
    if (!this.#kept.delete(schema.key)) this.#keptLength += schema.length;
    this.#kept.set(schema.key, schema);
    if (this.#kept.size <= MAX_SCHEMAS && this.#keptLength <= MAX_KEPT_LENGTH) return;
    for (const oldest of this.#kept.values()) {
      if (oldest === schema || (this.#kept.size <= MAX_SCHEMAS && this.#keptLength <= MAX_KEPT_LENGTH)) return;
      this.#kept.delete(oldest.key);
      this.#keptLength -= oldest.length;
      oldest.isKept = false;
      oldest.validate = undefined;
      oldest.validateAll = undefined;
    }
  }

  #tellUnchecked({ unchecked }: CompiledSchema, toolName: unknown): void {
    if (unchecked.length === 0) return;
    const fields = { tool: shownName(toolName), count: unchecked.length, reason: shortened(unchecked.join("; "), MAX_PROBLEM_LENGTH) };
    this.#log.warn(fields, "argument patterns skipped");
  }

  #skip(toolName: unknown, reason: string): void {
    this.#log.warn({ tool: shownName(toolName), reason: shortened(reason, MAX_PROBLEM_LENGTH) }, "argument schema skipped");
  }
}

function shownName(toolName: unknown): string {
  return shortened(String(toolName), MAX_TOOL_NAME_LENGTH);
}

function linesOf(violations: readonly Violation[], args: JsonObject): readonly string[] {
  const lines = new Set<string>();
  const relevant = relevantViolations(violations);
  for (const violation of relevant) {
    lines.add(shortened(describeViolation(violation, args), MAX_PROBLEM_LENGTH));
    if (lines.size > MAX_PROBLEMS) break;
  }
  if (lines.size <= MAX_PROBLEMS) return [...lines];
  return [...[...lines].slice(0, MAX_PROBLEMS), `and ${relevant.length - MAX_PROBLEMS} more`];
}

/** The same for the same schema; empty for one that is nested too deeply to have a text. */
function textOf(inputSchema: unknown): string {
  try {
    return JSON.stringify(inputSchema);
  } catch {
    return "";
  }
}

function isDeep(value: unknown): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_PLAIN_DEPTH) return true;
    level = level.flatMap((part): unknown[] => (typeof part === "object" && part !== null ? Object.values(part) : []));
  }
  return false;
}
