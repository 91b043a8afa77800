import type { RJSFSchema } from "@rjsf/utils";
import { escapeInvisible } from "../json/text.ts";

export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns the names in a JSON pointer of a URI fragment, such as `#/properties/a%20b` (RFC 6901 §6). */
function pointerNames(fragment: string): string[] {
  return fragment
    .split("/")
    .slice(1)
    .map((part) => decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** A form with more would freeze the browser. */
const MAX_SUBSCHEMAS = 500;
const MAX_DEPTH = 20;
/** Of the items or properties that the form would create at once. */
const MAX_CREATED = 20;
const MAX_OPTIONS = 1000;
/** Of the parts of an `allOf`, which the form merges with each other. */
const MAX_ALTERNATIVES = 64;
const MAX_TEXT_LENGTH = 2000;

const SUBSCHEMA = new Set(["items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames", "additionalItems"]);
const SUBSCHEMA_LIST = new Set(["allOf", "anyOf", "oneOf", "prefixItems", "items"]);
const SUBSCHEMA_MAP = new Set(["properties", "dependentSchemas"]);
/** Keywords whose values are not schemas. A property of such a name cannot be referred to either. */
const NO_SCHEMAS = new Set(["default", "const", "enum", "enumNames", "required", "dependentRequired"]);
const SCALAR = new Set(["string", "number", "integer", "boolean"]);
/** Shown to the reader. */
const TEXT = new Set(["title", "description"]);
/**
 * All other keywords are omitted. Among them are addresses, which the form resolves against each other, and patterns, because one of them can
 * block the browser for ever, and formats, for which the same is true. The server checks them.
 */
const KEPT = new Set(
  [
    [...SUBSCHEMA, ...SUBSCHEMA_LIST, ...SUBSCHEMA_MAP, ...TEXT],
    ["type", "enum", "enumNames", "const", "default", "readOnly", "required", "dependentRequired"],
    ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"],
    ["minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"],
  ].flat(),
);

/**
 * Returns a schema of the server as one that is safe to make a form of.
 *
 * @returns a text if no form can be made of it: the reason, for the reader.
 */
export function formSchemaOf(schema: unknown): RJSFSchema | string {
  if (!isObject(schema)) return "The schema is not an object";
  // Arguments are always an object, so the type may be missing.
  if (schema["type"] !== undefined && schema["type"] !== "object") return "The schema is not one of an object";
  try {
    return { ...copyOf(schema), type: "object" };
  } catch (error) {
    if (error instanceof FormError) return error.message;
    return "The schema is not valid";
  }
}

class FormError extends Error {}

/** Returns a copy without the keywords that the form must not see, and with the target of each reference in place of it. */
function copyOf(root: JsonObject): JsonObject {
  let count = 0;
  return copy(root, 0);

  function copy(schema: unknown, depth: number): JsonObject {
    if (typeof schema === "boolean") return schema ? {} : { not: {} };
    if (!isObject(schema)) throw new FormError("A part of the schema is not an object");
    // A schema that contains itself ends here too.
    if (++count > MAX_SUBSCHEMAS || depth > MAX_DEPTH) throw new FormError("The schema is too large for a form");
    const { $ref: reference } = schema;
    const entries: [string, unknown][] = reference === undefined ? [] : Object.entries(copy(referenced(root, reference), depth + 1));
    for (const [key, value] of Object.entries(schema)) {
      if (!KEPT.has(key)) continue;
      // A field for text or a number cannot show it.
      if (key === "default" && typeof value === "object" && SCALAR.has(String(schema["type"]))) continue;
      if (key === "default" && countEntries(value) > MAX_CREATED) continue;
      entries.push([key, copyKeyword(key, value, depth)]);
    }
    return Object.fromEntries(entries);
  }

  function copyKeyword(key: string, value: unknown, depth: number): unknown {
    if (TEXT.has(key)) return typeof value === "string" ? escapeInvisible(value.slice(0, MAX_TEXT_LENGTH)) : undefined;
    if (SUBSCHEMA_LIST.has(key) && Array.isArray(value)) {
      const parts = value.map((each) => copy(each, depth + 1));
      if (key === "allOf" && countAlternatives(parts) > MAX_ALTERNATIVES) throw new FormError("The schema has too many alternatives");
      return parts;
    }
    if (SUBSCHEMA_MAP.has(key)) {
      if (!isObject(value)) throw new FormError(`"${key}" of the schema is not an object`);
      // The form addresses values by their names.
      if (Object.hasOwn(value, "__proto__")) throw new FormError('A property is named "__proto__"');
      return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, copy(each, depth + 1)]));
    }
    if (key === "additionalProperties" && typeof value === "boolean") return value;
    if (SUBSCHEMA.has(key)) return copy(value, depth + 1);
    if (key === "const" && countEntries(value) > MAX_CREATED) throw new FormError("The schema wants too large a value");
    if (key === "enum" && (!Array.isArray(value) || value.length > MAX_OPTIONS)) throw new FormError("The schema has too many options");
    if (key === "required" && (!Array.isArray(value) || value.some((name) => typeof name !== "string")))
      throw new FormError('"required" of the schema is not a list of names');
    if ((key === "minItems" || key === "minProperties") && !(typeof value === "number" && value <= MAX_CREATED))
      throw new FormError("The schema wants too many items");
    return value;
  }
}

/** Returns the number of combinations that the form would try: the alternatives of all parts, multiplied. */
function countAlternatives(schema: unknown): number {
  if (typeof schema !== "object" || schema === null) return 1;
  return Object.entries(schema).reduce((product, [key, value]: [string, unknown]) => {
    const own = (key === "anyOf" || key === "oneOf") && Array.isArray(value) ? Math.max(1, value.length) : 1;
    return Math.min(MAX_ALTERNATIVES + 1, product * own * countAlternatives(value));
  }, 1);
}

/** Returns the number of entries of a value, at all depths. The form has a field for each. */
function countEntries(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return Object.values(value).reduce<number>((sum, each) => sum + 1 + countEntries(each), 0);
}

/** Returns the target of a reference such as `#/$defs/name`. */
function referenced(root: JsonObject, reference: unknown): unknown {
  if (typeof reference !== "string" || !reference.startsWith("#")) throw new FormError("The schema refers to another document");
  const names = pointerNames(reference);
  if (names.some((name) => NO_SCHEMAS.has(name))) throw new FormError("The schema refers to a part that is not a schema");
  const target = names.reduce<unknown>(
    (part, name) => (typeof part === "object" && part !== null && Object.hasOwn(part, name) ? (part as JsonObject)[name] : undefined),
    root,
  );
  if (target === undefined) throw new FormError("The schema refers to a part that is missing");
  return target;
}

/**
 * Returns the object of a JSON text, or an error message. An empty text is an empty object.
 *
 * @param isExact true to keep numbers as they are written, for `JSON.stringify` only.
 */
export function parsedObject(text: string, isExact: boolean): Readonly<Record<string, unknown>> | string {
  if (text.trim() === "") return {};
  try {
    const value: unknown = isExact ? JSON.parse(text, exactNumber) : JSON.parse(text);
    return isObject(value) ? value : "The arguments must be a JSON object.";
  } catch (error) {
    return `Not valid JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** `JSON.rawJSON` of ES2026, which some browsers lack. */
const { rawJSON } = JSON as { readonly rawJSON?: (text: string) => unknown };

/** Keeps a number that a double cannot hold. */
function exactNumber(this: unknown, _key: string, value: unknown, context?: { readonly source?: string }): unknown {
  const source = context?.source;
  return typeof value === "number" && source !== undefined && rawJSON !== undefined && String(value) !== source ? rawJSON(source) : value;
}
