import { Ajv, type Options } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { JsonObject } from "../../jsonrpc/message.ts";
import { bounded } from "./counted-work.ts";
import { linearPattern } from "./linear-pattern.ts";
import { UnsupportedPatternError } from "./pattern-translation.ts";
import type { Violation } from "./violation.ts";
import type { WorkLimit } from "./work-limit.ts";

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
  readonly validate: Validate;
  /** Patterns that cannot be matched in linear time, and why; their values count as valid. */
  readonly unchecked: readonly string[];
  /** What its patterns take of memory, in instructions. */
  readonly patternsSize: number;
}

/** Compiles schemas with ajv, which checks nothing else than JSON Schema says and changes no value. */
export class SchemaCompiler {
  readonly #work: WorkLimit;
  /** By dialect, those that hold its compiled metaschema. */
  readonly #metaschemas = new Map<string, Ajv | Ajv2020>();

  constructor(work: WorkLimit) {
    this.#work = work;
  }

  /**
   * @param findsAll all violations, not the first one only
   * @throws what is wrong with the schema
   */
  compile(schema: JsonObject, findsAll: boolean): CompiledSchema {
    const name = dialectOf(schema);
    const { Compiler, metaschemaId } = DIALECTS[name];
    const metaschemas = this.#metaschemas.get(name) ?? bounded(new Compiler(OPTIONS), this.#work);
    this.#metaschemas.set(name, metaschemas);
    if (!metaschemas.validate(metaschemaId, schema)) throw new Error(`it is no JSON Schema: ${metaschemas.errorsText()}`);

    const unchecked: string[] = [];
    let patternsSize = 0;
    const regExp = (source: string): PatternTest => {
      try {
        const pattern = linearPattern(source, this.#work.spend);
        patternsSize += pattern.size;
        return { test: (text) => pattern.test(text), toString: () => source };
      } catch (error) {
        if (!(error instanceof UnsupportedPatternError)) throw error;
        unchecked.push(`${JSON.stringify(source)}: ${error.message}`);
        return { test: () => true, toString: () => source };
      }
    };
    // Each schema has a compiler of its own: `$id`s of one are none of another's business.
    const options: Options = {
      ...OPTIONS,
      allErrors: findsAll,
      validateSchema: false,
      // In draft-07, what is beside a `$ref` does not count.
      ignoreKeywordsWithRef: name !== DEFAULT_DIALECT,
      code: { optimize: JSON.stringify(schema).length <= MAX_OPTIMIZED_LENGTH, regExp: Object.assign(regExp, { code: "linearPattern" }) },
    };
    const compiler = bounded(new Compiler(options), this.#work);
    return { validate: compiler.compile(schema) as Validate, unchecked, patternsSize };
  }
}

/** What ajv asks of an engine of regular expressions. */
interface PatternTest {
  test(text: string): boolean;
  /** Ajv takes two patterns for the same where this is the same. */
  toString(): string;
}

function dialectOf({ $schema }: JsonObject): keyof typeof DIALECTS {
  if ($schema === undefined) return DEFAULT_DIALECT;
  const name = typeof $schema === "string" ? /^https?:\/\/(.+?)#?$/.exec($schema)?.[1] : undefined;
  if (name === undefined || !Object.hasOwn(DIALECTS, name)) throw new Error("its dialect is neither 2020-12 nor draft-07");
  return name as keyof typeof DIALECTS;
}
