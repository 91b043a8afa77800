import { shorten } from "../../json/text.ts";
import { readablePath, quoted, stepsOf } from "./value-path.ts";
import { NO_BRANCH, type Violation } from "./violation.ts";

const MAX_LISTED = 20;
const MAX_VALUE_LENGTH = 60;
const MAX_LIST_LENGTH = 300;
const MAX_PATTERN_LENGTH = 150;
const MAX_SHOWN_BRANCHES = 3;

/** Describes a violation in a line for a model: its place, and the allowed values. The invalid values are not shown. */
export function describeViolation(violation: Violation, root: unknown): string {
  const steps = stepsOf(violation.instancePath);
  const { params, keyword } = violation;
  const member = params["missingProperty"] ?? params["additionalProperty"] ?? params["unevaluatedProperty"] ?? params["propertyName"];
  if (typeof member === "string") steps.push(member);
  const path = readablePath(root, steps);
  const place = path === "" ? "the arguments" : `\`${path}\``;
  return `${place} ${requirementOf(violation, keyword, params, root)}`;
}

// oxlint-disable-next-line complexity -- a table of the keywords
function requirementOf(violation: Violation, keyword: string, params: Violation["params"], root: unknown): string {
  switch (keyword) {
    case "type":
      return `must be ${anyOf(typesOf(params["type"]))}${insteadOf(violation)}`;
    case NO_BRANCH:
      return `must be ${anyOf([...typesOf(params["types"]), ...valuesOf(params["allowedValues"])])}`;
    case "required":
      return `is required${expectedType(violation)}`;
    case "dependentRequired":
    case "dependencies":
      return `is required if \`${shorten(String(params["property"]), MAX_VALUE_LENGTH)}\` is given`;
    case "additionalProperties":
    case "unevaluatedProperties":
      return `is unknown${knownNames(violation)}`;
    case "propertyNames":
      return "is not an allowed name here";
    case "false schema":
      return "is not allowed here";
    case "enum":
      return `must be one of: ${listed(valuesOf(params["allowedValues"]))}`;
    case "const":
      return `must be ${valueText(params["allowedValue"])}`;
    case "minimum":
    case "maximum":
    case "exclusiveMinimum":
    case "exclusiveMaximum":
      return `must be ${String(params["comparison"])} ${String(params["limit"])}`;
    case "multipleOf":
      return `must be a multiple of ${String(params["multipleOf"])}`;
    case "minLength":
      return `must have at least ${counted(params, "character")}`;
    case "maxLength":
      return `must have at most ${counted(params, "character")}`;
    case "pattern":
      return `must match the pattern ${JSON.stringify(shorten(String(params["pattern"]), MAX_PATTERN_LENGTH))}`;
    case "minItems":
      return `must have at least ${counted(params, "item")}`;
    case "maxItems":
    case "additionalItems":
    case "items":
      return `must have at most ${counted(params, "item")}`;
    case "unevaluatedItems":
      return "has more items than its schema allows";
    case "uniqueItems":
      return "must not have the same item twice";
    case "contains":
      return "must have a different number of items that match `contains` of its schema";
    case "minProperties":
      return `must have at least ${counted(params, "member")}`;
    case "maxProperties":
      return `must have at most ${counted(params, "member")}`;
    case "oneOf":
    case "anyOf":
      return describeBranches(violation, root);
    case "not":
      return "matches a form that its schema excludes (`not`)";
    default:
      return `violates ${quoted(keyword)} of its schema`;
  }
}

function describeBranches({ params, schema }: Violation, root: unknown): string {
  if (Array.isArray(params["passingSchemas"])) return "matches more than one form of `oneOf`; exactly one is allowed";
  const count = Array.isArray(schema) ? schema.length : 0;
  const branches = Array.isArray(params["branches"]) ? (params["branches"] as readonly (readonly Violation[])[]) : [];
  const hints = branches.slice(0, MAX_SHOWN_BRANCHES).flatMap(([first]) => (first === undefined ? [] : [describeViolation(first, root)]));
  return `matches none of ${count} allowed forms${hints.length === 0 ? "" : `: ${hints.join("; or ")}`}`;
}

const WITH_ARTICLE: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  integer: "an integer",
  boolean: "a boolean",
  array: "an array",
  object: "an object",
  null: "null",
};

function typesOf(types: unknown): string[] {
  return [types].flat().map((type) => WITH_ARTICLE[String(type)] ?? quoted(String(type)));
}

function insteadOf(violation: Violation): string {
  if (!("data" in violation)) return "";
  const { data } = violation;
  const type = data === null ? "null" : Array.isArray(data) ? "array" : typeof data;
  return `, not ${WITH_ARTICLE[type] ?? type}`;
}

/** Returns the type of a missing member, if the schema states it directly. */
function expectedType({ parentSchema, params }: Violation): string {
  const type = memberOf(memberOf(memberOf(parentSchema, "properties"), params["missingProperty"]), "type");
  return typeof type === "string" || Array.isArray(type) ? ` (${anyOf(typesOf(type))})` : "";
}

function knownNames({ parentSchema, keyword }: Violation): string {
  const properties = memberOf(parentSchema, "properties");
  // With `unevaluatedProperties`, other subschemas allow names as well.
  if (typeof properties !== "object" || properties === null || keyword !== "additionalProperties") return "";
  const names = Object.keys(properties);
  return names.length === 0 ? "; no names are known" : `; known names: ${listed(names.map(quoted))}`;
}

function memberOf(value: unknown, name: unknown): unknown {
  if (typeof value !== "object" || value === null || typeof name !== "string" || !Object.hasOwn(value, name)) return undefined;
  return (value as Readonly<Record<string, unknown>>)[name];
}

function valuesOf(values: unknown): string[] {
  return Array.isArray(values) ? values.map(valueText) : [];
}

function valueText(value: unknown): string {
  return shorten(JSON.stringify(value), MAX_VALUE_LENGTH);
}

function anyOf(expectations: readonly string[]): string {
  return expectations.length <= 2 ? expectations.join(" or ") : `one of: ${listed(expectations)}`;
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

function counted(params: Violation["params"], noun: string): string {
  const limit = String(params["limit"] ?? params["len"]);
  return `${limit} ${noun}${limit === "1" ? "" : "s"}`;
}
