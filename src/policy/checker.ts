import { Ajv, type ErrorObject, type Options, type ValidateFunction } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import { beginning, escapeInvisible, findRepeatedName, foldCase, shorten } from "../json/text.ts";
import { estimatedBytes, MAX_VALUE_BYTES, readValue } from "../json/value.ts";
import { describeError } from "../mcp/errors.ts";
import { isJsonObject, type JsonObject } from "../mcp/message.ts";

/** MCP 2025-11-25, basic/index, JSON Schema usage. */
const DEFAULT_DIALECT = "json-schema.org/draft/2020-12/schema";

/** The passes of ajv's optimizer take seconds for a longer schema. In UTF-16 units. */
const MAX_OPTIMIZED_LENGTH = 8 * 1024;

/** For longer schemas or arguments, only the first violation is reported: each takes memory. In UTF-16 units. */
const MAX_LENGTH_FOR_ALL = 64 * 1024;

const OPTIONS: Options = {
  // Unknown keywords are not errors.
  strict: false,
  validateFormats: false,
  // Inherited properties such as `toString` do not count.
  ownProperties: true,
  // Allows rounding errors: 19.99 is a multiple of 0.01.
  multipleOfPrecision: 6,
  // A loop is less code than a comparison for each name, and compiles faster.
  loopRequired: 20,
  // A copy of a subschema for each of thousands of references would be too much code.
  inlineRefs: false,
  verbose: true,
  logger: false,
};

/** The known dialects, each with a compiler that keeps the metaschema. */
const DIALECTS = {
  "json-schema.org/draft/2020-12/schema": {
    Compiler: Ajv2020,
    ajv: new Ajv2020(OPTIONS),
    id: "https://json-schema.org/draft/2020-12/schema",
  },
  "json-schema.org/draft-07/schema": { Compiler: Ajv, ajv: new Ajv(OPTIONS), id: "http://json-schema.org/draft-07/schema" },
} as const;

/**
 * `findFirst` stops at the first violation, and `findAll` too if the schema is long.
 * @throws Error that describes the problem of the schema.
 */
function compileSchema(schema: JsonObject, textLength: number) {
  const name = dialectOf(schema);
  const { Compiler, ajv, id } = DIALECTS[name];
  if (!ajv.validate(id, schema)) throw new Error(`it is not a JSON Schema: ${ajv.errorsText()}`);
  const options: Options = {
    ...OPTIONS,
    validateSchema: false,
    // In draft-07, the keywords beside a `$ref` are ignored.
    ignoreKeywordsWithRef: name !== DEFAULT_DIALECT,
    code: { optimize: textLength <= MAX_OPTIMIZED_LENGTH, regExp: Object.assign(patternOf, { code: "patternOf" }) },
  };
  // Each schema has its own compiler, so that its `$id`s do not affect others.
  const compile = (allErrors: boolean): ValidateFunction => new Compiler({ ...options, allErrors }).compile(schema);
  const findFirst = compile(false);
  // A schema that fails for any value is at fault itself.
  findFirst({});
  return { findFirst, findAll: textLength > MAX_LENGTH_FOR_ALL ? findFirst : compile(true) };
}

/** Without the flag `u`, patterns may be less strict. */
function patternOf(source: string): RegExp {
  try {
    return new RegExp(source, "u");
  } catch {
    return new RegExp(source);
  }
}

function dialectOf({ $schema }: JsonObject): keyof typeof DIALECTS {
  if ($schema === undefined) return DEFAULT_DIALECT;
  const name = typeof $schema === "string" ? /^https?:\/\/(.+?)#?$/.exec($schema)?.[1] : undefined;
  if (name === undefined || !Object.hasOwn(DIALECTS, name)) throw new Error("its dialect is neither 2020-12 nor draft-07");
  return name as keyof typeof DIALECTS;
}

const MAX_TEXT_LENGTH = 256 * 1024;
/** The cost grows with the number of subschemas, and with its square for `unevaluated…`. */
const MAX_OBJECTS = 3000;
const MAX_OBJECTS_WITH_UNEVALUATED = 500;

/** Members count as keywords everywhere, and braces in texts as objects. */
function rejectCostly(text: string): void {
  if (text.length > MAX_TEXT_LENGTH) throw new Error(`it is longer than ${MAX_TEXT_LENGTH} characters`);
  if (text.includes('"$async":')) throw new Error("it is asynchronous");
  const limit = /"unevaluated\w*":/.test(text) ? MAX_OBJECTS_WITH_UNEVALUATED : MAX_OBJECTS;
  if (text.split("{").length > limit + 1) throw new Error(`it has more than ${limit} subschemas`);
}

const MAX_PROBLEMS = 20;
const MAX_PROBLEM_LENGTH = 500;

/** The parameter of ajv's error that its message leaves out. */
const DETAILS: ReadonlyMap<string, string> = new Map([
  ["enum", "allowedValues"],
  ["const", "allowedValue"],
  ["propertyNames", "propertyName"],
  ["additionalProperties", "additionalProperty"],
  ["unevaluatedProperties", "unevaluatedProperty"],
]);

/** Tells a model what is wrong, without the invalid value, which may be secret. */
function describeViolation({ instancePath, keyword, message, params }: ErrorObject): string {
  const place = instancePath === "" ? "the arguments" : `"${instancePath.slice(1).replaceAll("/", ".")}"`;
  const name = DETAILS.get(keyword);
  const line = `${place} ${message ?? keyword}${name === undefined ? "" : `: ${JSON.stringify(params[name])}`}`;
  return shorten(escapeInvisible(beginning(line, MAX_PROBLEM_LENGTH + 2)), MAX_PROBLEM_LENGTH);
}

/** ajv reports the violations of all branches of an `anyOf` or `oneOf`, then that of the keyword. They become one line. */
function describeViolations(violations: readonly ErrorObject[]): readonly string[] {
  const kept: ErrorObject[] = [];
  for (const violation of violations) {
    const { keyword, instancePath, parentSchema } = violation;
    if (keyword === "anyOf" || keyword === "oneOf") {
      const isOfBranch = (other: ErrorObject): boolean =>
        other.parentSchema !== parentSchema && `${other.instancePath}/`.startsWith(`${instancePath}/`);
      const ofBranches = kept.splice(kept.findLastIndex((other) => !isOfBranch(other)) + 1);
      const lines = new Set(ofBranches.map(describeViolation));
      // More than one branch of a `oneOf` may match.
      if (lines.size > 0) violation.message += `: ${[...lines].join("; or ")}`;
    }
    kept.push(violation);
  }
  const lines = kept.slice(0, MAX_PROBLEMS).map(describeViolation);
  return kept.length > MAX_PROBLEMS ? [...lines, `and ${kept.length - MAX_PROBLEMS} more`] : lines;
}

/** Returns the properties by name, and by name without case. */
export function spellingsOf({ properties }: JsonObject): ReadonlyMap<string, string> {
  const names = isJsonObject(properties) ? Object.keys(properties) : [];
  return new Map([...names.toReversed().map((name) => [foldCase(name), name] as const), ...names.map((name) => [name, name] as const)]);
}

/** Finds a name that a server may read differently: one that occurs twice, or matches a property except for case, as in Go. */
export function findAmbiguity(schemas: readonly ReadonlyMap<string, string>[], args: JsonObject, argsText: string): string | undefined {
  const repeated = findRepeatedName(argsText, 0);
  if (repeated !== undefined) return `${JSON.stringify(shorten(repeated))} occurs twice in one object`;
  for (const spellings of schemas) {
    if (spellings.size === 0) continue;
    for (const name of Object.keys(args)) {
      const meant = spellings.get(name) ?? spellings.get(foldCase(name)) ?? name;
      if (meant !== name) return `${JSON.stringify(shorten(name))} must be spelled ${JSON.stringify(shorten(meant))}`;
    }
  }
  return undefined;
}

/** Schemas and arguments may be hostile, so this runs in a thread that may be ended at any time. */
export class Checker {
  readonly #spellings = new Map<string, ReadonlyMap<string, string>>();
  /** Without the schemas that cannot be used. */
  readonly #validators = new Map<string, ReturnType<typeof compileSchema>>();

  /** Takes unbounded time. @param schemaText empty if it has too many levels. @returns the reason why the schema cannot be used. */
  add(key: string, schemaText: string): string | undefined {
    try {
      if (schemaText === "") throw new Error("it has too many levels");
      if (estimatedBytes(schemaText) > MAX_VALUE_BYTES) throw new Error("it has too many values");
      const value = readValue(schemaText);
      if (!isJsonObject(value)) throw new Error("it is not an object");
      this.#spellings.set(key, spellingsOf(value));
      rejectCostly(schemaText);
      this.#validators.set(key, compileSchema(value, schemaText.length));
      return undefined;
    } catch (error) {
      return describeError(error);
    }
  }

  /** Takes unbounded time. @param keys the schemas that the arguments must all match. @returns the problems, one line a field. */
  check(keys: readonly string[], argsText = "{}"): readonly string[] {
    if (estimatedBytes(argsText) > MAX_VALUE_BYTES) return ["the arguments have too many values to be checked"];
    const args = readValue(argsText);
    if (!isJsonObject(args)) return ["the arguments must be an object"];
    const partsOf = <Part>(parts: ReadonlyMap<string, Part>): Part[] => keys.flatMap((key) => parts.get(key) ?? []);
    try {
      const ambiguity = findAmbiguity(partsOf(this.#spellings), args, argsText);
      if (ambiguity !== undefined) return [ambiguity];
      for (const { findFirst, findAll } of partsOf(this.#validators)) {
        const validate = argsText.length > MAX_LENGTH_FOR_ALL ? findFirst : findAll;
        if (validate(args)) continue;
        const { errors } = validate;
        // They refer to the arguments, which must not stay in memory.
        validate.errors = null;
        return describeViolations(errors ?? []);
      }
      return [];
    } catch (error) {
      // The arguments count as invalid, so that a client cannot switch off the check.
      const reason = error instanceof RangeError ? ": they are nested too deeply, or it refers to itself without end" : "";
      return [`the arguments cannot be checked against the schema${reason}`];
    }
  }
}
