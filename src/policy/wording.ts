import type { ErrorObject } from "ajv";
import { findRepeatedName, foldCase, shorten } from "../json/text.ts";
import { isJsonObject, type JsonObject } from "../mcp/message.ts";

const MAX_LISTED = 20;
const MAX_LIST_LENGTH = 300;
const MAX_HINTS = 5;

/** Returns a client's or server's text, shortened and quoted, without line breaks. */
function quoted(text: string): string {
  return JSON.stringify(shorten(text));
}

/** Describes a violation in a line for a model: its place, and the allowed values. The invalid values are not shown: they may be secrets. */
export function describeViolation(violation: ErrorObject): string {
  const { instancePath, keyword, message = `violates ${quoted(keyword)} of its schema` } = violation;
  const place = instancePath === "" ? "the arguments" : quoted(instancePath.slice(1).replaceAll("/", "."));
  const requirement =
    keyword === "false schema"
      ? "is not allowed"
      : shorten(
          JSON.stringify(message)
            .slice(1, -1)
            .replaceAll(String.raw`\"`, '"'),
          MAX_LIST_LENGTH,
        );
  return `${place} ${requirement}${detailOf(violation)}`;
}

/** Returns what ajv's message leaves out. */
function detailOf({ keyword, params, parentSchema }: ErrorObject): string {
  switch (keyword) {
    case "enum":
      return `: ${listed((params["allowedValues"] as readonly unknown[]).map(valueText))}`;
    case "const":
      return `: ${valueText(params["allowedValue"])}`;
    case "propertyNames":
      return `: ${quoted(String(params["propertyName"]))}`;
    case "unevaluatedProperties":
      return `: ${quoted(String(params["unevaluatedProperty"]))}`;
    case "additionalProperties": {
      const { properties } = parentSchema ?? {};
      const known = isJsonObject(properties) ? Object.keys(properties) : [];
      return `: ${quoted(String(params["additionalProperty"]))}; ${known.length === 0 ? "no names are known" : `known names: ${listed(known.map(quoted))}`}`;
    }
    default:
      return "";
  }
}

function valueText(value: unknown): string {
  return shorten(JSON.stringify(value));
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

/**
 * Selects the violations that help to correct the arguments. For a value that matches no branch of an `anyOf` or `oneOf`, ajv reports the
 * violations of all branches. Only those of the intended branch matter, if it can be determined.
 */
export function relevantViolations(violations: readonly ErrorObject[]): readonly ErrorObject[] {
  const kept: ErrorObject[] = [];
  for (const violation of violations) {
    const { keyword, instancePath, parentSchema } = violation;
    if (!["anyOf", "oneOf", "contains", "propertyNames", "if"].includes(keyword)) {
      kept.push(violation);
      continue;
    }
    // The violations of the subschemas come right before that of the keyword itself.
    const isInner = (other: ErrorObject): boolean =>
      other.parentSchema !== parentSchema && `${other.instancePath}/`.startsWith(`${instancePath}/`);
    const inner = kept.splice(kept.findLastIndex((other) => !isInner(other)) + 1);
    if (keyword === "if" && inner.length > 0) kept.push(...inner);
    else if (keyword === "anyOf" || keyword === "oneOf") kept.push(...ofBranches(violation, inner));
    else kept.push(violation);
  }
  return kept;
}

function ofBranches(outer: ErrorObject, inner: readonly ErrorObject[]): readonly ErrorObject[] {
  const levels = outer.instancePath.split("/").length;
  // A branch is for another type, or for another value of a member that distinguishes kinds of objects.
  const isOther = ({ keyword, instancePath }: ErrorObject): boolean =>
    ((keyword === "type" || keyword === "anyOf") && instancePath === outer.instancePath) ||
    ((keyword === "const" || keyword === "enum") && instancePath.split("/").length <= levels + 1);
  const branches = [...Map.groupBy(inner, ({ schemaPath }) => branchOf(schemaPath, outer.schemaPath)).values()];
  const plausible = branches.filter((branch) => !branch.some(isOther));
  const [meant, ...others] = plausible;
  if (meant !== undefined && others.length === 0) return meant;
  const hints = (meant === undefined ? branches : plausible).flatMap(([first]) => (first === undefined ? [] : [describeViolation(first)]));
  // More than one branch of a `oneOf` may match.
  if (hints.length === 0) return [outer];
  const shown = [...new Set(hints)].slice(0, MAX_HINTS);
  return [{ ...outer, message: `matches none of the allowed forms: ${shown.join("; or ")}` }];
}

/** Returns the branch of a violation: its index, or the target of its reference, such as `#/$defs/a`. */
function branchOf(schemaPath: string, outerPath: string): string {
  if (!schemaPath.startsWith(`${outerPath}/`)) return schemaPath.split("/", 3).join("/");
  return schemaPath
    .slice(outerPath.length + 1)
    .split("/", 1)
    .join("");
}

/** Returns the property that is meant by each name, and by each name without its case. */
export function spellingsOf({ properties }: JsonObject): ReadonlyMap<string, string> {
  const names = isJsonObject(properties) ? Object.keys(properties) : [];
  return new Map([...names.toReversed().map((name) => [foldCase(name), name] as const), ...names.map((name) => [name, name] as const)]);
}

/**
 * Finds a name that a server may read differently. It occurs twice in an object, or matches a property except for case, as in Go.
 *
 * @param args the value of `argsText`, an object.
 * @returns a line about the first such name; undefined if there is none.
 */
export function findAmbiguity(schemas: readonly ReadonlyMap<string, string>[], args: JsonObject, argsText: string): string | undefined {
  const repeated = findRepeatedName(argsText, 0);
  if (repeated !== undefined) return `${quoted(repeated)} occurs twice in one object`;
  for (const spellings of schemas) {
    if (spellings.size === 0) continue;
    for (const name of Object.keys(args)) {
      const meant = spellings.get(name) === name ? name : (spellings.get(foldCase(name)) ?? name);
      if (meant !== name) return `${quoted(name)} must be spelled ${quoted(meant)}`;
    }
  }
  return undefined;
}
