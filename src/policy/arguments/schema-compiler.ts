import { Ajv, type Options } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { JsonObject } from "../../protocol/message.ts";
import type { Violation } from "./violation.ts";

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
export interface Validate {
  (value: unknown): boolean;
  errors?: readonly Violation[] | null;
}

export interface CompiledSchema {
  /** Stops at the first violation. */
  readonly validate: Validate;
  /** Finds all violations. */
  readonly compileAll: () => Validate;
  /** The patterns that are not valid in JavaScript. They match every value. */
  readonly unchecked: readonly string[];
}

/** Compiles schemas with ajv, which is configured to follow JSON Schema only and to change no value. */
export class SchemaCompiler {
  /** The compilers with a compiled metaschema, by dialect. */
  readonly #metaschemas = new Map<string, Ajv | Ajv2020>();

  /** @throws Error that describes the problem of the schema. */
  compile(schema: JsonObject, textLength: number): CompiledSchema {
    const name = dialectOf(schema);
    const { Compiler, metaschemaId } = DIALECTS[name];
    const metaschemas = this.#metaschemas.get(name) ?? new Compiler(OPTIONS);
    this.#metaschemas.set(name, metaschemas);
    if (!metaschemas.validate(metaschemaId, schema)) throw new Error(`it is not a JSON Schema: ${metaschemas.errorsText()}`);

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
}

/** The part of a regular expression that ajv uses. */
interface PatternTest {
  test(text: string): boolean;
  /** Ajv takes two patterns as equal if this is equal. */
  toString(): string;
}

/** Compiles a pattern, first with the flag `u` and then without it, because many patterns are written for less strict engines. */
function patternTest(source: string, unchecked: Set<string>): PatternTest {
  for (const flags of ["u", ""]) {
    try {
      return new RegExp(source, flags);
    } catch {
      // The pattern is not valid with these flags.
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
