import { findRepeatedName, foldCase, shorten } from "../json/text.ts";
import { isJsonObject, type JsonObject } from "../mcp/message.ts";

const MAX_PATH_LENGTH = 250;
const PLAIN_NAME = /^[A-Za-z_$][\w$-]*$/;

/** Returns a client's or server's text, shortened and quoted, without line breaks. */
function quoted(text: string): string {
  return JSON.stringify(shorten(text));
}

/** Splits a JSON pointer into names and indexes. */
function stepsOf(pointer: string): string[] {
  return pointer
    .split("/")
    .slice(1)
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** Returns the path of a value in the notation of programs: `options.limit`, `items[3].id`, `["odd name"]`. */
function readablePath(root: unknown, steps: readonly string[]): string {
  let path = "";
  let value = root;
  for (const step of steps) {
    path += Array.isArray(value) ? `[${step}]` : memberPath(step, path === "");
    value =
      typeof value === "object" && value !== null && Object.hasOwn(value, step) ? (value as Record<string, unknown>)[step] : undefined;
    if (path.length > MAX_PATH_LENGTH) return shorten(path, MAX_PATH_LENGTH);
  }
  return path;
}

function memberPath(name: string, isFirst: boolean): string {
  if (!PLAIN_NAME.test(name)) return `[${quoted(name)}]`;
  return `${isFirst ? "" : "."}${shorten(name)}`;
}

/** A violation as the validator reports it: an error object of ajv, with `verbose`. */
export interface Violation {
  readonly keyword: string;
  /** A JSON pointer to the invalid value. */
  readonly instancePath: string;
  /** A JSON pointer to the keyword, relative to the target of the last reference. */
  readonly schemaPath: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** The name of a member, if the name is invalid. */
  readonly propertyName?: string;
  /** The value of the keyword. */
  readonly schema?: unknown;
  readonly parentSchema?: unknown;
  /** The invalid value. It may be a secret. */
  readonly data?: unknown;
}

/** Marks a violation that lists the types and values of all branches. Not a keyword of ajv. */
const NO_BRANCH = "no branch";

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

/**
 * Selects the violations that help to correct the arguments. For a value that matches no branch of an `anyOf` or `oneOf`, a validator
 * reports the violations of all branches. Only those of the intended branch matter, if it can be determined.
 */
export function relevantViolations(violations: readonly Violation[]): readonly Violation[] {
  const kept: Violation[] = [];
  for (const violation of violations) {
    switch (violation.keyword) {
      case "anyOf":
      case "oneOf":
        kept.push(...ofBranches(violation, takeInner(kept, violation)));
        break;
      case "contains":
      case "propertyNames":
        takeInner(kept, violation);
        kept.push(violation);
        break;
      case "if":
        // The violations of the `then` or `else` are already reported.
        if (!isWithin(kept.at(-1), violation)) kept.push(violation);
        break;
      default:
        kept.push(violation);
    }
  }
  return kept;
}

/** Removes and returns the violations of a keyword's subschemas, which come right before that of the keyword itself. */
function takeInner(kept: Violation[], outer: Violation): Violation[] {
  let start = kept.length;
  while (start > 0 && isWithin(kept[start - 1], outer)) start--;
  return kept.splice(start);
}

function isWithin(inner: Violation | undefined, outer: Violation): boolean {
  if (inner === undefined || inner.parentSchema === outer.parentSchema) return false;
  return inner.instancePath === outer.instancePath || inner.instancePath.startsWith(`${outer.instancePath}/`);
}

function ofBranches(outer: Violation, inner: readonly Violation[]): readonly Violation[] {
  // More than one branch matches, but only one may.
  if (Array.isArray(outer.params["passingSchemas"])) return [outer];
  const branches = byBranch(outer, inner);
  const plausible = branches.filter((branch) => !isOfAnotherKind(branch, outer));
  const [meant, ...others] = plausible;
  if (meant !== undefined && others.length === 0) return meant;
  const excluding = branches.flatMap((branch) => branch.filter((violation) => excludes(violation, outer)));
  if (meant === undefined && excluding.length >= branches.length && excluding.length > 0) return byPlace(excluding);
  const shared = (branches[0] ?? []).filter((violation) => branches.every((branch) => branch.some((other) => isSame(violation, other))));
  return shared.length > 0 ? shared : [{ ...outer, params: { branches: plausible } }];
}

/** True if the branch is for another type, or for another value of a member that distinguishes kinds of objects. */
function isOfAnotherKind(branch: readonly Violation[], outer: Violation): boolean {
  return branch.some((violation) => excludes(violation, outer));
}

function excludes({ keyword, instancePath }: Violation, outer: Violation): boolean {
  const isHere = instancePath === outer.instancePath;
  if (keyword === "type" || keyword === NO_BRANCH) return isHere;
  return (keyword === "const" || keyword === "enum") && (isHere || stepsOf(instancePath).length === stepsOf(outer.instancePath).length + 1);
}

/** Returns one violation for each place, with all types and values that the branches allow there. */
function byPlace(violations: readonly Violation[]): Violation[] {
  const places = new Map<string, { types: Set<unknown>; values: Map<string, unknown>; first: Violation }>();
  for (const violation of violations) {
    const { instancePath, params, keyword } = violation;
    const place = places.get(instancePath) ?? { types: new Set(), values: new Map(), first: violation };
    places.set(instancePath, place);
    for (const type of keyword === "type" ? [params["type"]].flat() : asArray(params["types"])) place.types.add(type);
    const values = keyword === "const" ? [params["allowedValue"]] : asArray(params["allowedValues"]);
    for (const value of values) place.values.set(JSON.stringify(value), value);
  }
  return Array.from(places.values(), ({ first, types, values }) => ({
    ...first,
    keyword: NO_BRANCH,
    params: { types: [...types], allowedValues: [...values.values()] },
  }));
}

function asArray(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : [];
}

function isSame(one: Violation, other: Violation): boolean {
  return (
    one.keyword === other.keyword && one.instancePath === other.instancePath && JSON.stringify(one.params) === JSON.stringify(other.params)
  );
}

/** Returns the violations of each branch. A violation whose branch is unknown because of a reference joins the previous one. */
function byBranch(outer: Violation, inner: readonly Violation[]): Violation[][] {
  const schemas = Array.isArray(outer.schema) ? (outer.schema as readonly unknown[]) : [];
  const branches: Violation[][] = schemas.map(() => []);
  let current = 0;
  for (const violation of inner) {
    const found = schemas.findIndex((schema, index) => isOfBranch(violation, outer, schema, index));
    if (found >= 0) current = found;
    branches[current]?.push(violation);
  }
  return branches;
}

function isOfBranch({ schemaPath }: Violation, outer: Violation, schema: unknown, index: number): boolean {
  if (schemaPath.startsWith(`${outer.schemaPath}/${index}/`)) return true;
  const reference = typeof schema === "object" && schema !== null && "$ref" in schema ? schema.$ref : undefined;
  return typeof reference === "string" && schemaPath.startsWith(`${reference}/`);
}

/** The names of a schema's properties. Finds the names that a server may take for one of them. */
export class PropertyNames {
  readonly #properties: JsonObject;
  /** The first property of each case-folded name. */
  readonly #byFoldedName = new Map<string, string>();

  constructor(inputSchema: unknown) {
    const properties = isJsonObject(inputSchema) ? inputSchema["properties"] : undefined;
    this.#properties = isJsonObject(properties) ? properties : {};
    for (const name of Object.keys(this.#properties)) {
      const folded = foldCase(name);
      if (!this.#byFoldedName.has(folded)) this.#byFoldedName.set(folded, name);
    }
  }

  /** Returns the property whose name differs from `name` only in case, unless a property has exactly this name. */
  otherCaseOf(name: string): string | undefined {
    return this.#byFoldedName.size === 0 || Object.hasOwn(this.#properties, name) ? undefined : this.#byFoldedName.get(foldCase(name));
  }
}

/**
 * Finds a name that a server may read differently. It occurs twice in an object, or matches a property except for case, as in Go.
 *
 * @param args the value of `argsText`, an object.
 * @returns a line about the first such name; undefined if there is none.
 */
export function findAmbiguity(schemas: readonly PropertyNames[], args: JsonObject, argsText: string): string | undefined {
  const repeated = findRepeatedName(argsText, 0);
  if (repeated !== undefined) return `${quoted(repeated)} occurs twice in one object`;
  const names = Object.keys(args);
  for (const properties of schemas) {
    for (const name of names) {
      const meant = properties.otherCaseOf(name);
      if (meant !== undefined) return `${quoted(name)} must be spelled ${quoted(meant)}`;
    }
  }
  return undefined;
}
