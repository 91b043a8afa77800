import { Ajv, type ErrorObject, type Options } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import { findRepeatedName, foldCase, shorten } from "../json/text.ts";
import { estimatedBytes, MAX_VALUE_BYTES, readValue } from "../json/value.ts";
import { describeError } from "../mcp/errors.ts";
import { isJsonObject, type JsonObject } from "../mcp/message.ts";

const DIALECTS = {
  "json-schema.org/draft/2020-12/schema": { Compiler: Ajv2020, metaschemaId: "https://json-schema.org/draft/2020-12/schema" },
  "json-schema.org/draft-07/schema": { Compiler: Ajv, metaschemaId: "http://json-schema.org/draft-07/schema" },
} as const;
/** The dialect of a schema without `$schema` (MCP 2025-11-25, basic/index, JSON Schema usage). */
const DEFAULT_DIALECT = "json-schema.org/draft/2020-12/schema";

/** Ajv optimizes its code in many passes. This pays for a schema of usual size, but takes seconds for a large one. In UTF-16 units. */
const MAX_OPTIMIZED_LENGTH = 8 * 1024;

const OPTIONS: Options = {
  // Unknown keywords are not errors.
  strict: false,
  validateFormats: false,
  // Inherited properties such as `toString` do not count.
  ownProperties: true,
  // Allows rounding errors: 19.99 is a multiple of 0.01.
  multipleOfPrecision: 6,
  // A loop over many names is less code than a comparison for each, and is compiled faster.
  loopRequired: 20,
  // A copy of a subschema for each of thousands of references would be too much code.
  inlineRefs: false,
  verbose: true,
  logger: false,
};

/** Returns true if the value is valid. If not, `errors` has the violations until the next call. */
interface Validate {
  (value: unknown): boolean;
  errors?: readonly ErrorObject[] | null;
}

/** The compilers with a compiled metaschema, by dialect. */
const metaschemas = new Map<string, Ajv | Ajv2020>();

/**
 * Compiles a schema with ajv, which is configured to follow JSON Schema only and to change no value.
 *
 * @returns a validator that stops at the first violation, a function that compiles one that finds all, and the patterns that are not valid
 * in JavaScript, which match every value.
 * @throws Error that describes the problem of the schema.
 */
function compileSchema(schema: JsonObject, textLength: number) {
  const name = dialectOf(schema);
  const { Compiler, metaschemaId } = DIALECTS[name];
  const metaschema = metaschemas.get(name) ?? new Compiler(OPTIONS);
  metaschemas.set(name, metaschema);
  if (!metaschema.validate(metaschemaId, schema)) throw new Error(`it is not a JSON Schema: ${metaschema.errorsText()}`);

  const unchecked = new Set<string>();
  const options: Options = {
    ...OPTIONS,
    validateSchema: false,
    // In draft-07, the keywords beside a `$ref` are ignored.
    ignoreKeywordsWithRef: name !== DEFAULT_DIALECT,
    code: {
      optimize: textLength <= MAX_OPTIMIZED_LENGTH,
      regExp: Object.assign((source: string) => patternTest(source, unchecked), { code: "patternTest" }),
    },
  };
  // Each schema has its own compiler, so that its `$id`s do not affect others.
  const compile = (allErrors: boolean): Validate => new Compiler({ ...options, allErrors }).compile(schema) as Validate;
  return { validate: compile(false), compileAll: () => compile(true), unchecked: [...unchecked] };
}

/** Compiles a pattern, first with the flag `u` and then without it, because many patterns are written for less strict engines. */
function patternTest(source: string, unchecked: Set<string>): RegExp | { test(text: string): boolean; toString(): string } {
  for (const flags of ["u", ""]) {
    try {
      return new RegExp(source, flags);
    } catch {
      // The pattern is not valid with these flags.
    }
  }
  unchecked.add(`${JSON.stringify(source)}: it is not an ECMA-262 regular expression`);
  // Ajv takes two patterns as equal if their texts are equal.
  return { test: () => true, toString: () => source };
}

function dialectOf({ $schema }: JsonObject): keyof typeof DIALECTS {
  if ($schema === undefined) return DEFAULT_DIALECT;
  const name = typeof $schema === "string" ? /^https?:\/\/(.+?)#?$/.exec($schema)?.[1] : undefined;
  if (name === undefined || !Object.hasOwn(DIALECTS, name)) throw new Error("its dialect is neither 2020-12 nor draft-07");
  return name as keyof typeof DIALECTS;
}

const MAX_TEXT_LENGTH = 256 * 1024;
const MAX_DEPTH = 100;
/** The cost of compilation grows with the number of subschemas, and with its square if `unevaluated…` must combine what each has seen. */
const MAX_OBJECTS = 3000;
const MAX_OBJECTS_WITH_UNEVALUATED = 500;

/** The keywords that may accept a value because a subschema is violated. Within them, an unchecked part must not count as valid. */
const REVERSING = new Set(["not", "if", "oneOf", "maxContains", "patternProperties"]);

/**
 * Examines a schema before other code uses it. Members count as keywords everywhere. A property with the name of a keyword only makes the
 * survey stricter.
 *
 * @param textLength length of the schema's JSON, in UTF-16 units.
 * @returns true if leaving out a check in a subschema can only make more values valid.
 * @throws Error with the reason why the schema must not be compiled.
 */
function canLeaveOut(schema: JsonObject, textLength: number): boolean {
  let objects = 0;
  let hasReversing = false;
  let hasUnevaluated = false;
  const visit = (value: unknown, depth: number): void => {
    if (typeof value !== "object" || value === null) return;
    if (depth > MAX_DEPTH) throw new Error(`it has more than ${MAX_DEPTH} levels`);
    if (isJsonObject(value)) {
      if (++objects > MAX_OBJECTS) return;
      for (const name of Object.keys(value)) {
        if (name === "$async") throw new Error("it is asynchronous");
        hasReversing ||= REVERSING.has(name);
        hasUnevaluated ||= name.startsWith("unevaluated");
      }
    }
    for (const part of Object.values(value)) visit(part, depth + 1);
  };
  if (textLength > MAX_TEXT_LENGTH) throw new Error(`it is longer than ${MAX_TEXT_LENGTH} characters`);
  visit(schema, 1);
  const limit = hasUnevaluated ? MAX_OBJECTS_WITH_UNEVALUATED : MAX_OBJECTS;
  if (objects > limit) throw new Error(`it has more than ${limit} subschemas`);
  return !hasReversing;
}

/** True if a value consists of at most `limit` values. */
function hasAtMost(limit: number, value: unknown): boolean {
  const open = [value];
  let count = 1;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (typeof next !== "object" || next === null) continue;
    const parts: unknown[] = Object.values(next);
    count += parts.length;
    if (count > limit) return false;
    for (const part of parts) open.push(part);
  }
  return true;
}

/** True if a value has more than `levels` levels. */
function isDeeperThan(levels: number, value: unknown): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > levels) return true;
    level = level.flatMap((part): unknown[] => (typeof part === "object" && part !== null ? Object.values(part) : []));
  }
  return false;
}

const MAX_LISTED = 20;
const MAX_LIST_LENGTH = 300;
const MAX_HINTS = 5;

/** Returns a client's or server's text, shortened and quoted, without line breaks. */
function quoted(text: string): string {
  return JSON.stringify(shorten(text));
}

const PLAIN_NAME = /^[A-Za-z_$][\w$]*$/;
const INDEX = /^(0|[1-9]\d*)$/;

/** Returns a JSON pointer in the notation of programs: `options.limit`, `items[3].id`, `["odd name"]`. */
function pathOf(pointer: string): string {
  const steps = pointer.slice(1).split("/");
  const names = steps.map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
  const path = names.map((name) => (PLAIN_NAME.test(name) ? `.${name}` : `[${INDEX.test(name) ? name : JSON.stringify(name)}]`)).join("");
  return shorten(path.startsWith(".") ? path.slice(1) : path, MAX_LIST_LENGTH);
}

/** Describes a violation in a line for a model: its place, and the allowed values. The invalid values are not shown: they may be secrets. */
function describeViolation(violation: ErrorObject): string {
  const { instancePath, keyword, message = `violates ${quoted(keyword)} of its schema` } = violation;
  const place = instancePath === "" ? "the arguments" : `"${pathOf(instancePath)}"`;
  const line = JSON.stringify(message).replaceAll(String.raw`\"`, '"');
  const requirement = keyword === "false schema" ? "is not allowed" : shorten(line.slice(1, -1), MAX_LIST_LENGTH);
  return `${place} ${requirement}${detailOf(violation)}`;
}

/** Returns what ajv's message leaves out. */
function detailOf({ keyword, params, parentSchema }: ErrorObject): string {
  switch (keyword) {
    case "enum":
      return `: ${listed((params["allowedValues"] as readonly unknown[]).map(valueText))}`;
    case "const":
      return `: ${valueText(params["allowedValue"])}`;
    case "propertyNames":
      return `: ${quoted(String(params["propertyName"]))}`;
    case "unevaluatedProperties":
      return `: ${quoted(String(params["unevaluatedProperty"]))}`;
    case "additionalProperties": {
      const { properties } = parentSchema ?? {};
      const known = isJsonObject(properties) ? Object.keys(properties) : [];
      return `: ${quoted(String(params["additionalProperty"]))}; ${known.length === 0 ? "no names are known" : `known names: ${listed(known.map(quoted))}`}`;
    }
    default:
      return "";
  }
}

function valueText(value: unknown): string {
  return shorten(JSON.stringify(value));
}

function listed(texts: readonly string[]): string {
  const shown: string[] = [];
  let length = 0;
  for (const text of texts) {
    length += text.length + 2;
    if (shown.length === MAX_LISTED || length > MAX_LIST_LENGTH) return `${shown.join(", ")} and ${texts.length - shown.length} more`;
    shown.push(text);
  }
  return shown.join(", ");
}

/**
 * Selects the violations that help to correct the arguments. For a value that matches no branch of an `anyOf` or `oneOf`, ajv reports the
 * violations of all branches. Only those of the intended branch matter, if it can be determined.
 */
function relevantViolations(violations: readonly ErrorObject[]): readonly ErrorObject[] {
  const kept: ErrorObject[] = [];
  for (const violation of violations) {
    const { keyword, instancePath, parentSchema } = violation;
    if (!["anyOf", "oneOf", "contains", "propertyNames", "if"].includes(keyword)) {
      kept.push(violation);
      continue;
    }
    // The violations of the subschemas come right before that of the keyword itself.
    const isInner = (other: ErrorObject): boolean =>
      other.parentSchema !== parentSchema && `${other.instancePath}/`.startsWith(`${instancePath}/`);
    const inner = kept.splice(kept.findLastIndex((other) => !isInner(other)) + 1);
    if (keyword === "if" && inner.length > 0) kept.push(...inner);
    else if (keyword === "anyOf" || keyword === "oneOf") kept.push(...ofBranches(violation, inner));
    else kept.push(violation);
  }
  return kept;
}

function ofBranches(outer: ErrorObject, inner: readonly ErrorObject[]): readonly ErrorObject[] {
  const levels = outer.instancePath.split("/").length;
  // A branch is for another type, or for another value of a member that distinguishes kinds of objects.
  const isOther = ({ keyword, instancePath }: ErrorObject): boolean =>
    ((keyword === "type" || keyword === "anyOf") && instancePath === outer.instancePath) ||
    ((keyword === "const" || keyword === "enum") && instancePath.split("/").length <= levels + 1);
  const branches = [...Map.groupBy(inner, ({ schemaPath }) => branchOf(schemaPath, outer.schemaPath)).values()];
  const plausible = branches.filter((branch) => !branch.some(isOther));
  const [meant, ...others] = plausible;
  if (meant !== undefined && others.length === 0) return meant;
  // What excludes a branch comes before what it lacks besides.
  const hints = (meant === undefined ? branches : plausible)
    .flatMap((branch) => branch.find(isOther) ?? branch.slice(0, 1))
    .map(describeViolation);
  // More than one branch of a `oneOf` may match.
  if (hints.length === 0) return [outer];
  const shown = [...new Set(hints)].slice(0, MAX_HINTS);
  return [{ ...outer, message: `matches none of the allowed forms: ${shown.join("; or ")}` }];
}

/** Returns the branch of a violation: its path, or the target of its reference, such as `#/$defs/a`. */
function branchOf(schemaPath: string, outerPath: string): string {
  const levels = schemaPath.startsWith(`${outerPath}/`) ? outerPath.split("/").length + 1 : 3;
  return schemaPath.split("/", levels).join("/");
}

/** Returns the property that is meant by each name, and by each name without its case. */
export function spellingsOf({ properties }: JsonObject): ReadonlyMap<string, string> {
  const names = isJsonObject(properties) ? Object.keys(properties) : [];
  return new Map([...names.toReversed().map((name) => [foldCase(name), name] as const), ...names.map((name) => [name, name] as const)]);
}

/**
 * Finds a name that a server may read differently. It occurs twice in an object, or matches a property except for case, as in Go.
 *
 * @param args the value of `argsText`, an object.
 * @returns a line about the first such name; undefined if there is none.
 */
export function findAmbiguity(schemas: readonly ReadonlyMap<string, string>[], args: JsonObject, argsText: string): string | undefined {
  const repeated = findRepeatedName(argsText, 0);
  if (repeated !== undefined) return `${quoted(repeated)} occurs twice in one object`;
  for (const spellings of schemas) {
    if (spellings.size === 0) continue;
    for (const name of Object.keys(args)) {
      const meant = spellings.get(name) ?? spellings.get(foldCase(name)) ?? name;
      if (meant !== name) return `${quoted(name)} must be spelled ${quoted(meant)}`;
    }
  }
  return undefined;
}

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
  readonly spellings: ReadonlyMap<string, string>;
  /** Undefined if the schema cannot be used. */
  readonly validate?: Validate;
  /** Finds all violations. */
  readonly validateAll?: Validate | undefined;
}

/** Compiles schemas, and checks arguments against them. Both may be hostile, so it runs in a thread that may be ended at any time. */
export class Checker {
  readonly #schemas = new Map<string, Schema>();

  /** Adds a schema under a key. Never throws, but takes unbounded time. */
  add(key: string, schemaText: string): SchemaReport {
    let spellings: ReadonlyMap<string, string> = new Map();
    try {
      if (estimatedBytes(schemaText) > MAX_VALUE_BYTES) throw new Error("it has too many values");
      const value = readValue(schemaText);
      if (!isJsonObject(value)) throw new Error("it is not an object");
      spellings = spellingsOf(value);
      const mayLeaveOut = canLeaveOut(value, schemaText.length);
      const { validate, compileAll, unchecked } = compileSchema(value, schemaText.length);
      if (!mayLeaveOut && unchecked[0] !== undefined) throw new Error(`it has a pattern that cannot be checked: ${unchecked[0]}`);
      probe(validate);
      this.#schemas.set(key, { spellings, validate, validateAll: schemaText.length > MAX_LENGTH_FOR_ALL ? undefined : compileAll() });
      return { problem: undefined, unchecked };
    } catch (error) {
      this.#schemas.set(key, { spellings });
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
      const spellings = schemas.map((schema) => schema.spellings);
      const ambiguity = findAmbiguity(spellings, args, argsText);
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
  const first = linesOf(takeErrors(validate));
  if (validateAll === undefined || !hasAtMost(MAX_VALUES_FOR_ALL, args)) return first;
  try {
    return validateAll(args) ? first : linesOf(takeErrors(validateAll));
  } catch {
    return first;
  }
}

/** Removes and returns the violations. They refer to the arguments, which must not stay in memory. */
function takeErrors(validate: Validate): readonly ErrorObject[] {
  const errors = validate.errors ?? [];
  validate.errors = null;
  return errors;
}

function linesOf(violations: readonly ErrorObject[]): readonly string[] {
  const lines = new Set<string>();
  const relevant = relevantViolations(violations);
  for (const violation of relevant) {
    lines.add(shorten(describeViolation(violation), MAX_PROBLEM_LENGTH));
    if (lines.size > MAX_PROBLEMS) break;
  }
  if (lines.size <= MAX_PROBLEMS) return [...lines];
  return [...[...lines].slice(0, MAX_PROBLEMS), `and ${relevant.length - MAX_PROBLEMS} more`];
}
