import { stepsOf } from "./value-path.ts";
import { NO_BRANCH, type Violation } from "./violation.ts";

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
