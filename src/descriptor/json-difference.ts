import { isJsonObject, type JsonObject } from "../protocol/message.ts";
import { MAX_DEPTH } from "./descriptor.ts";

/** A place where two JSON values differ. `before` or `after` is absent if that side has no value there. */
export interface Difference {
  /** `inputSchema.properties.limit.maximum` */
  readonly path: string;
  readonly before?: unknown;
  readonly after?: unknown;
}

const SIMPLE_KEY = /^[\w$-]+$/;

/** True if two JSON values are equal. The order of keys does not matter. A value with too many levels equals no other. */
export function isEqualJson(a: unknown, b: unknown, depth = MAX_DEPTH): boolean {
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return a === b;
  if (depth === 0) return false;
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((element, index) => isEqualJson(element, b[index], depth - 1));
  }
  if (Array.isArray(b)) return false;
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => Object.hasOwn(b, key) && isEqualJson((a as JsonObject)[key], (b as JsonObject)[key], depth - 1));
}

/** Returns the places where two values differ, at most `limit`. Keys are visited in sorted order, so that the result is stable. */
export function findDifferences(path: string, before: unknown, after: unknown, limit: number): Difference[] {
  const found: Difference[] = [];
  collect(found, { path, before, after }, limit, MAX_DEPTH);
  return found;
}

function collect(found: Difference[], place: Required<Difference>, limit: number, depth: number): void {
  const { path, before, after } = place;
  if (found.length >= limit || isEqualJson(before, after, depth)) return;
  if (depth > 0 && Array.isArray(before) && Array.isArray(after)) {
    for (let index = 0; index < Math.max(before.length, after.length) && found.length < limit; index++) {
      collectMember(found, `${path}[${index}]`, before, after, index, limit, depth - 1);
    }
  } else if (depth > 0 && isJsonObject(before) && isJsonObject(after)) {
    for (const key of [...new Set([...Object.keys(before), ...Object.keys(after)])].sort()) {
      if (found.length >= limit) return;
      const memberPath = SIMPLE_KEY.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`;
      collectMember(found, memberPath, before, after, key, limit, depth - 1);
    }
  } else found.push(place);
}

function collectMember(
  found: Difference[],
  path: string,
  before: object,
  after: object,
  key: string | number,
  limit: number,
  depth: number,
): void {
  const [was, is] = [before as JsonObject, after as JsonObject].map((side) =>
    Object.hasOwn(side, key) ? { value: side[key] } : undefined,
  );
  if (was !== undefined && is !== undefined) collect(found, { path, before: was.value, after: is.value }, limit, depth);
  else found.push({ path, ...(was === undefined ? {} : { before: was.value }), ...(is === undefined ? {} : { after: is.value }) });
}
