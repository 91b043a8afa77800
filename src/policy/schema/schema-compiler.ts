import { Ajv, type Options } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { JsonObject } from "../../jsonrpc/message.ts";
import type { Violation } from "./violation.ts";

const DIALECTS = {
  "json-schema.org/draft/2020-12/schema": { Compiler: Ajv2020, metaschemaId: "https://json-schema.org/draft/2020-12/schema" },
  "json-schema.org/draft-07/schema": { Compiler: Ajv, metaschemaId: "http://json-schema.org/draft-07/schema" },
} as const;
/** Of a schema that names none (MCP 2025-11-25, basic/index, JSON Schema usage). */
const DEFAULT_DIALECT = "json-schema.org/draft/2020-12/schema";

/** Ajv goes over its code again and again to shorten it: worth it for a schema of common size, and seconds for a large one. */
const MAX_OPTIMIZED_LENGTH = 8 * 1024;

const OPTIONS: Options = {
  // Keywords that are not known are no mistake.
  strict: false,
  validateFormats: false,
  // `toString` is no property of an object that has none of its own.
  ownProperties: true,
  // 19.99 is a multiple of 0.01.
  multipleOfPrecision: 6,
  // Names in a row of comparisons are more code, and take longer to be written, than names in a loop.
  loopRequired: 20,
  // The same subschema, in place of thousands of references to it, is more code than anybody wants.
  inlineRefs: false,
  verbose: true,
  logger: false,
};

/** @returns whether the value is valid; if not, `errors` says why not, until the next call. */
export interface Validate {
  (value: unknown): boolean;
  errors?: readonly Violation[] | null;
}

export interface CompiledSchema {
  /** Stops at the first violation. */
  readonly validate: Validate;
  /** Finds all violations. */
  readonly compileAll: () => Validate;
  /** Patterns that are not valid in JavaScript; their values count as valid. */
  readonly unchecked: readonly string[];
}

/** Compiles schemas with ajv, which checks nothing else than JSON Schema says and changes no value. */
export class SchemaCompiler {
  /** By dialect, those that hold its compiled metaschema. */
  readonly #metaschemas = new Map<string, Ajv | Ajv2020>();

  /** @throws what is wrong with the schema */
  compile(schema: JsonObject, textLength: number): CompiledSchema {
    const name = dialectOf(schema);
    const { Compiler, metaschemaId } = DIALECTS[name];
    const metaschemas = this.#metaschemas.get(name) ?? new Compiler(OPTIONS);
    this.#metaschemas.set(name, metaschemas);
    if (!metaschemas.validate(metaschemaId, schema)) throw new Error(`it is no JSON Schema: ${metaschemas.errorsText()}`);

    const unchecked = new Set<string>();
    const options: Options = {
      ...OPTIONS,
      validateSchema: false,
      // In draft-07, what is beside a `$ref` does not count.
      ignoreKeywordsWithRef: name !== DEFAULT_DIALECT,
      code: {
        optimize: textLength <= MAX_OPTIMIZED_LENGTH,
        regExp: Object.assign((source: string) => patternTest(source, unchecked), { code: "patternTest" }),
      },
    };
    // Each schema has a compiler of its own: `$id`s of one are none of another's business.
    const compile = (allErrors: boolean): Validate => new Compiler({ ...options, allErrors }).compile(schema) as Validate;
    return { validate: compile(false), compileAll: () => compile(true), unchecked: [...unchecked] };
  }
}

/** What ajv asks of a regular expression. */
interface PatternTest {
  test(text: string): boolean;
  /** Ajv takes two patterns for the same where this is the same. */
  toString(): string;
}

/** Many patterns are written for engines that are less strict than the flag `u` is. */
function patternTest(source: string, unchecked: Set<string>): PatternTest {
  for (const flags of ["u", ""]) {
    try {
      return new RegExp(source, flags);
    } catch {
      // Not valid with these flags.
    }
  }
  unchecked.add(`${JSON.stringify(source)}: it is not an ECMA-262 regular expression`);
  return { test: () => true, toString: () => source };
}

function dialectOf({ $schema }: JsonObject): keyof typeof DIALECTS {
  if ($schema === undefined) return DEFAULT_DIALECT;
  const name = typeof $schema === "string" ? /^https?:\/\/(.+?)#?$/.exec($schema)?.[1] : undefined;
  if (name === undefined || !Object.hasOwn(DIALECTS, name)) throw new Error("its dialect is neither 2020-12 nor draft-07");
  return name as keyof typeof DIALECTS;
}
