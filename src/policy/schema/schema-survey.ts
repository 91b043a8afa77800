import { isJsonObject, type JsonObject } from "../../jsonrpc/message.ts";

const MAX_TEXT_LENGTH = 256 * 1024;
const MAX_DEPTH = 100;
/** What it takes to compile grows with the number of subschemas; with its square where `unevaluated…` must know what each has seen. */
const MAX_OBJECTS = 3000;
const MAX_OBJECTS_WITH_UNEVALUATED = 500;

/** A value may become valid where a subschema is violated: what is not checked in it must not count as valid. */
const REVERSING = new Set(["not", "if", "oneOf", "maxContains", "patternProperties"]);

export interface SchemaSurvey {
  /** Why it is not to be compiled. */
  readonly problem: string | undefined;
  /** Whether a subschema that is taken as valid without a check can only make more values valid. */
  readonly canLeaveOut: boolean;
}

/**
 * Looks over a schema before anything else works on it. Members are taken for keywords wherever they are: a property that is named like
 * one makes the survey stricter, not wrong.
 *
 * @param textLength of its JSON
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
    if (depth > MAX_DEPTH) return `it is nested more than ${MAX_DEPTH} levels deep`;
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
