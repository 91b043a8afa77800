import { describeError } from "../../errors.ts";
import { shorten } from "../../json/text.ts";
import { estimatedBytes, MAX_VALUE_BYTES } from "../../json/value-size.ts";
import { readValue } from "../../json/values.ts";
import { isJsonObject, type JsonObject } from "../../jsonrpc/message.ts";
import { findAmbiguity, PropertyNames } from "../ambiguous-arguments.ts";
import { relevantViolations } from "./branches.ts";
import { SchemaCompiler, type Validate } from "./schema-compiler.ts";
import { surveySchema } from "./schema-survey.ts";
import { hasAtMost, isDeeperThan } from "./value-limits.ts";
import type { Violation } from "./violation.ts";
import { describeViolation } from "./wording.ts";

/** Longer schemas, and arguments of more values, are told the first violation only: each violation takes memory. */
const MAX_LENGTH_FOR_ALL = 64 * 1024;
const MAX_VALUES_FOR_ALL = 10_000;
const MAX_PROBLEMS = 20;
const MAX_PROBLEM_LENGTH = 500;
/** Arguments of fewer levels are not the reason if the stack is exhausted: the schema goes round in circles. */
const MAX_PLAIN_DEPTH = 8;

/** What could not be used of a schema. */
export interface SchemaReport {
  /** Why arguments are not checked against it, if they are not. */
  readonly problem: string | undefined;
  /** Patterns that are left out, and why. */
  readonly unchecked: readonly string[];
}

interface Schema {
  readonly names: PropertyNames;
  /** Undefined if it cannot be used. */
  readonly validate?: Validate;
  /** Finds all violations, not the first one only. */
  readonly validateAll?: Validate | undefined;
}

const EMPTY: PropertyNames = new PropertyNames(undefined);

/** Compiles schemas, and checks arguments against them. Both may be hostile: it runs in a thread that may be ended at any time. */
export class Checker {
  readonly #compiler = new SchemaCompiler();
  readonly #schemas = new Map<string, Schema>();

  /** Adds a schema under a key. Never throws, but may take any time. */
  add(key: string, schemaText: string): SchemaReport {
    let names = EMPTY;
    try {
      if (estimatedBytes(schemaText) > MAX_VALUE_BYTES) throw new Error("it has too many values");
      const value = readValue(schemaText);
      if (!isJsonObject(value)) throw new Error("it is not an object");
      names = new PropertyNames(value);
      const { problem, canLeaveOut } = surveySchema(value, schemaText.length);
      if (problem !== undefined) throw new Error(problem);
      const { validate, compileAll, unchecked } = this.#compiler.compile(value, schemaText.length);
      if (!canLeaveOut && unchecked[0] !== undefined) throw new Error(`a pattern of it cannot be checked: ${unchecked[0]}`);
      probe(validate);
      this.#schemas.set(key, { names, validate, validateAll: schemaText.length > MAX_LENGTH_FOR_ALL ? undefined : compileAll() });
      return { problem: undefined, unchecked };
    } catch (error) {
      this.#schemas.set(key, { names });
      return { problem: describeError(error), unchecked: [] };
    }
  }

  forget(keys: readonly string[]): void {
    for (const key of keys) this.#schemas.delete(key);
  }

  /**
   * Never throws, but may take any time.
   *
   * @param keys the schemas that the arguments have to fit, all of them.
   * @param argsText undefined is as good as `{}`.
   * @returns what is wrong, one line a field; empty if nothing is.
   */
  check(keys: readonly string[], argsText = "{}"): readonly string[] {
    if (estimatedBytes(argsText) > MAX_VALUE_BYTES) return ["the arguments have too many values to be checked"];
    const args = readValue(argsText);
    if (!isJsonObject(args)) return ["the arguments must be an object"];
    const schemas = keys.flatMap((key) => this.#schemas.get(key) ?? []);
    try {
      const ambiguity = findAmbiguity(
        schemas.map(({ names }) => names),
        args,
        argsText,
      );
      if (ambiguity !== undefined) return [ambiguity];
      for (const schema of schemas) {
        const problems = problemsOf(schema, args);
        if (problems.length > 0) return problems;
      }
      return [];
    } catch (error) {
      // Nothing that a client sends switches the check off.
      const isTooDeep = error instanceof RangeError && isDeeperThan(MAX_PLAIN_DEPTH, args);
      return [isTooDeep ? "the arguments are nested too deeply" : "the arguments cannot be checked against the schema"];
    }
  }
}

/** A schema that cannot even be applied to an empty object is at fault itself. */
function probe(validate: Validate): void {
  try {
    validate({});
  } catch (error) {
    throw new Error(`it fails: ${describeError(error)}`, { cause: error });
  }
}

function problemsOf({ validate, validateAll }: Schema, args: JsonObject): readonly string[] {
  if (validate === undefined || validate(args)) return [];
  const first = linesOf(takeErrors(validate), args);
  if (validateAll === undefined || !hasAtMost(MAX_VALUES_FOR_ALL, args)) return first;
  try {
    return validateAll(args) ? first : linesOf(takeErrors(validateAll), args);
  } catch {
    return first;
  }
}

/** The violations refer to the arguments, which are not to stay in memory. */
function takeErrors(validate: Validate): readonly Violation[] {
  const errors = validate.errors ?? [];
  validate.errors = null;
  return errors;
}

function linesOf(violations: readonly Violation[], args: JsonObject): readonly string[] {
  const lines = new Set<string>();
  const relevant = relevantViolations(violations);
  for (const violation of relevant) {
    lines.add(shorten(describeViolation(violation, args), MAX_PROBLEM_LENGTH));
    if (lines.size > MAX_PROBLEMS) break;
  }
  if (lines.size <= MAX_PROBLEMS) return [...lines];
  return [...[...lines].slice(0, MAX_PROBLEMS), `and ${relevant.length - MAX_PROBLEMS} more`];
}
