import { describeError } from "../../errors.ts";
import { shorten } from "../../json/text.ts";
import { estimatedBytes, MAX_VALUE_BYTES } from "../../json/value-size.ts";
import { readValue } from "../../json/values.ts";
import { isJsonObject, type JsonObject } from "../../protocol/message.ts";
import { findAmbiguity, PropertyNames } from "../ambiguous-arguments.ts";
import { relevantViolations } from "./branches.ts";
import { SchemaCompiler, type Validate } from "./schema-compiler.ts";
import { surveySchema } from "./schema-survey.ts";
import { hasAtMost, isDeeperThan } from "./value-limits.ts";
import type { Violation } from "./violation.ts";
import { describeViolation } from "./wording.ts";

/** For longer schemas, or arguments with more values, only the first violation is reported, because each takes memory. */
const MAX_LENGTH_FOR_ALL = 64 * 1024;
const MAX_VALUES_FOR_ALL = 10_000;
const MAX_PROBLEMS = 20;
const MAX_PROBLEM_LENGTH = 500;
/** If arguments with at most this many levels exhaust the stack, the schema is at fault: it refers to itself without end. */
const MAX_PLAIN_DEPTH = 8;

/** The unusable parts of a schema. */
export interface SchemaReport {
  /** The reason why the schema cannot be used; undefined if it can. */
  readonly problem: string | undefined;
  /** The patterns that are not checked, with the reasons. */
  readonly unchecked: readonly string[];
}

interface Schema {
  readonly names: PropertyNames;
  /** Undefined if the schema cannot be used. */
  readonly validate?: Validate;
  /** Finds all violations. */
  readonly validateAll?: Validate | undefined;
}

const EMPTY: PropertyNames = new PropertyNames(undefined);

/** Compiles schemas, and checks arguments against them. Both may be hostile, so it runs in a thread that may be ended at any time. */
export class Checker {
  readonly #compiler = new SchemaCompiler();
  readonly #schemas = new Map<string, Schema>();

  /** Adds a schema under a key. Never throws, but takes unbounded time. */
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
      if (!canLeaveOut && unchecked[0] !== undefined) throw new Error(`it has a pattern that cannot be checked: ${unchecked[0]}`);
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
   * Checks arguments. Never throws, but takes unbounded time.
   *
   * @param keys the schemas that the arguments must all match.
   * @returns the problems, one line a field; empty if the arguments are valid.
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
      // The arguments count as invalid, so that a client cannot switch off the check.
      const isTooDeep = error instanceof RangeError && isDeeperThan(MAX_PLAIN_DEPTH, args);
      return [isTooDeep ? "the arguments are nested too deeply" : "the arguments cannot be checked against the schema"];
    }
  }
}

/** Applies a schema to an empty object. @throws Error if that fails, because the schema itself is at fault. */
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

/** Removes and returns the violations. They refer to the arguments, which must not stay in memory. */
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
