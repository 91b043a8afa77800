import { isJsonObject, type JsonObject } from "../../protocol/message.ts";

const MAX_TEXT_LENGTH = 256 * 1024;
const MAX_DEPTH = 100;
/** The cost of compilation grows with the number of subschemas, and with its square if `unevaluated…` must combine what each has seen. */
const MAX_OBJECTS = 3000;
const MAX_OBJECTS_WITH_UNEVALUATED = 500;

/** The keywords that may accept a value because a subschema is violated. Within them, an unchecked part must not count as valid. */
const REVERSING = new Set(["not", "if", "oneOf", "maxContains", "patternProperties"]);

export interface SchemaSurvey {
  /** The reason why the schema must not be compiled; undefined if it may. */
  readonly problem: string | undefined;
  /** True if leaving out a check in a subschema can only make more values valid. */
  readonly canLeaveOut: boolean;
}

/**
 * Examines a schema before other code uses it. Members count as keywords everywhere. A property with the name of a keyword only makes the
 * survey stricter.
 *
 * @param textLength length of the schema's JSON, in UTF-16 units.
 */
export function surveySchema(schema: JsonObject, textLength: number): SchemaSurvey {
  const surveyor = new Surveyor();
  const problem = textLength > MAX_TEXT_LENGTH ? `it is longer than ${MAX_TEXT_LENGTH} characters` : surveyor.visit(schema, 1);
  const limit = surveyor.hasUnevaluated ? MAX_OBJECTS_WITH_UNEVALUATED : MAX_OBJECTS;
  return {
    problem: problem ?? (surveyor.objects > limit ? `it has more than ${limit} subschemas` : undefined),
    canLeaveOut: !surveyor.hasReversing,
  };
}

class Surveyor {
  objects = 0;
  hasReversing = false;
  hasUnevaluated = false;

  visit(value: unknown, depth: number): string | undefined {
    if (typeof value !== "object" || value === null) return undefined;
    if (depth > MAX_DEPTH) return `it has more than ${MAX_DEPTH} levels`;
    if (isJsonObject(value)) {
      if (++this.objects > MAX_OBJECTS) return undefined;
      for (const name of Object.keys(value)) {
        if (name === "$async") return "it is asynchronous";
        this.hasReversing ||= REVERSING.has(name);
        this.hasUnevaluated ||= name.startsWith("unevaluated");
      }
    }
    for (const part of Object.values(value)) {
      const problem = this.visit(part, depth + 1);
      if (problem !== undefined) return problem;
    }
    return undefined;
  }
}
