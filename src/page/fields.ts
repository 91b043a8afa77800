import { isJsonObject, type JsonObject } from "../json/text.ts";

/** One property. Its value is kept as text: the string itself for `text`, otherwise JSON. Empty for none. */
export interface Field {
  readonly name: string;
  readonly kind: "text" | "number" | "boolean" | "choice" | "json";
  readonly isRequired: boolean;
  /** With references replaced. */
  readonly schema: JsonObject;
  /** Undefined for all but `choice`. */
  readonly options: readonly { readonly label: string; readonly text: string }[] | undefined;
  readonly initial: string;
}

const MAX_FIELDS = 200;
const MAX_OPTIONS = 1000;
/** The depth of references to references, and of objects in a sample. */
const MAX_DEPTH = 3;
/** The number of properties of an object in a sample. */
const MAX_SAMPLES = 20;
const MAX_SAMPLE_LENGTH = 1000;
const SAMPLES: JsonObject = {
  date: "2026-01-31",
  "date-time": "2026-01-31T12:00:00Z",
  email: "name@example.org",
  uri: "https://example.org/",
};

/**
 * One for each property. Patterns and formats are left to the server: a pattern can block the browser for ever.
 *
 * @param isFilled true to fill in required properties with samples.
 * @returns undefined if the arguments can only be written as JSON.
 */
export function fieldsOf(schema: unknown, isFilled: boolean): readonly Field[] | undefined {
  const root = isJsonObject(schema) ? resolved(schema, schema) : undefined;
  if (root === undefined || (root["type"] ?? "object") !== "object") return undefined;
  if (["$ref", "allOf", "anyOf", "oneOf"].some((key) => root[key] !== undefined)) return undefined;
  const properties = Object.entries(isJsonObject(root["properties"]) ? root["properties"] : {});
  const required = new Set(Array.isArray(root["required"]) ? root["required"] : []);
  if (properties.length > MAX_FIELDS || (properties.length === 0 && isJsonObject(root["additionalProperties"]))) return undefined;
  return properties.map(([name, property]) => {
    const isRequired = required.has(name);
    return fieldOf(name, resolved(schema as JsonObject, property), isRequired, (own) =>
      isFilled && isRequired ? sampleOf(schema as JsonObject, own, 0) : (own["default"] ?? undefined),
    );
  });
}

/** Without a schema: its value is JSON. */
export function unknownField(name: string): Field {
  return fieldOf(name, {}, false, () => undefined);
}

function fieldOf(name: string, schema: JsonObject, isRequired: boolean, initialOf: (schema: JsonObject) => unknown): Field {
  const options = optionsOf(schema)?.map(({ label, value }) => ({ label, text: JSON.stringify(value) }));
  const kind = options === undefined ? (KINDS[String(typeOf(schema))] ?? "json") : "choice";
  return { name, kind, isRequired, schema, options, initial: fieldText(kind, initialOf(schema)) };
}

const KINDS: Readonly<Record<string, Field["kind"]>> = { string: "text", number: "number", integer: "number", boolean: "boolean" };

export function fieldText(kind: Field["kind"], value: unknown): string {
  if (value === undefined) return "";
  return kind === "text" && typeof value === "string" ? value : JSON.stringify(value);
}

/** For `JSON.stringify` only. Fields without a value are omitted. */
export function argumentsOf(fields: readonly Field[], texts: ReadonlyMap<string, string>): JsonObject | string {
  const members = fields.flatMap(({ name, kind }) => {
    const text = texts.get(name) ?? "";
    if (text.trim() === "") return [];
    const value = kind === "text" ? JSON.stringify(text) : kind === "number" && jsonProblem(text, false) !== "" ? Number(text) : text;
    return [`${JSON.stringify(name)}:${value}`];
  });
  return parsedObject(`{${members.join()}}`, true);
}

/** Replaces a reference by its target, and an alternative to null by the other one. */
function resolved(root: JsonObject, schema: unknown): JsonObject {
  let result = isJsonObject(schema) ? schema : {};
  for (let depth = 0; depth < MAX_DEPTH; depth++) {
    const { $ref, anyOf, ...rest } = result;
    const variants: readonly unknown[] = Array.isArray(anyOf) ? anyOf.filter((each) => !isJsonObject(each) || each["type"] !== "null") : [];
    const next = typeof $ref === "string" ? targetOf(root, $ref) : variants.length === 1 ? variants[0] : undefined;
    if (!isJsonObject(next)) return result;
    result = { ...next, ...rest };
  }
  return result;
}

/** @param reference such as `#/$defs/name` (RFC 6901). */
function targetOf(root: JsonObject, reference: string): unknown {
  if (!reference.startsWith("#")) return undefined;
  const names = reference.split("/").slice(1);
  return names
    .map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce<unknown>((part, name) => (isJsonObject(part) && Object.hasOwn(part, name) ? part[name] : undefined), root);
}

function typeOf({ type }: JsonObject): unknown {
  const types = [type].flat().filter((each) => each !== "null");
  return types.length === 1 ? types[0] : undefined;
}

/** @returns undefined if the schema does not name its values one by one. */
function optionsOf({ enum: values, enumNames, const: only, oneOf, anyOf }: JsonObject) {
  const listed = only === undefined ? values : [only];
  if (Array.isArray(listed) && listed.length <= MAX_OPTIONS) {
    const names: readonly unknown[] = Array.isArray(enumNames) ? enumNames : [];
    return listed.map((value: unknown, index) => ({ label: asText(names[index] ?? value), value }));
  }
  const variants: unknown = oneOf ?? anyOf;
  if (!Array.isArray(variants) || variants.length > MAX_OPTIONS) return undefined;
  const titled = variants.filter((each) => isJsonObject(each)).filter((each) => each["const"] !== undefined);
  if (titled.length === 0 || titled.length < variants.length) return undefined;
  return titled.map(({ const: value, title }) => ({ label: asText(title ?? value), value }));
}

export function asText(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

function sampleOf(root: JsonObject, schema: unknown, depth: number): unknown {
  const own = resolved(root, schema);
  const example: unknown = Array.isArray(own["examples"]) ? own["examples"][0] : undefined;
  const given = own["default"] ?? example ?? optionsOf(own)?.[0]?.value;
  if (given !== undefined) return given;
  const number = (key: string, otherwise: number): number => (typeof own[key] === "number" ? own[key] : otherwise);
  const type = typeOf(own);
  if (type === "boolean") return false;
  if (type === "number" || type === "integer")
    return Math.min(number("maximum", Number.MAX_VALUE), Math.max(number("minimum", 1), number("multipleOf", 1)));
  if (type === "array") return depth < MAX_DEPTH ? [sampleOf(root, own["items"], depth + 1)] : [];
  if (type !== "object")
    return SAMPLES[String(own["format"])] ?? "example".padEnd(Math.min(number("minLength", 0), MAX_SAMPLE_LENGTH), "e");
  const properties = isJsonObject(own["properties"]) ? own["properties"] : {};
  const required = Array.isArray(own["required"]) && depth < MAX_DEPTH ? own["required"].slice(0, MAX_SAMPLES).map(String) : [];
  return Object.fromEntries(required.map((name) => [name, sampleOf(root, properties[name], depth + 1)]));
}

/**
 * An empty text is an empty object.
 *
 * @param isExact true to keep numbers as they are written, for `JSON.stringify` only.
 * @returns an error message if it is not the text of an object.
 */
export function parsedObject(text: string, isExact: boolean): JsonObject | string {
  if (text.trim() === "") return {};
  try {
    const value: unknown = isExact ? JSON.parse(text, exactNumber) : JSON.parse(text);
    return isJsonObject(value) ? value : "The arguments must be a JSON object.";
  } catch (error) {
    return `Not valid JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** Empty if nothing is wrong, or if there is no text. */
export function jsonProblem(text: string, isObjectOnly: boolean): string {
  const parsed = parsedObject(isObjectOnly || text.trim() === "" ? text : `{"value":${text}}`, false);
  return typeof parsed === "string" ? parsed : "";
}

/** `JSON.rawJSON` of ES2026, which some browsers lack. */
const { rawJSON } = JSON as { readonly rawJSON?: (text: string) => unknown };

/** Keeps a number that a double cannot hold. */
function exactNumber(this: unknown, _key: string, value: unknown, context?: { readonly source?: string }): unknown {
  const source = context?.source;
  return typeof value === "number" && source !== undefined && rawJSON !== undefined && String(value) !== source ? rawJSON(source) : value;
}
