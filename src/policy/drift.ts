import { createHash } from "node:crypto";
import { beginning, escapeInvisible, isInsidePair, shorten } from "../json/text.ts";
import { isJsonObject, type JsonObject } from "../mcp/message.ts";
import {
  DescriptorError,
  type DescriptorTool,
  MAX_DEPTH,
  readAnnotations,
  readDescription,
  readInputSchema,
  sortKeys,
} from "./descriptor.ts";

/** A place where two JSON values differ. `before` or `after` is absent if that side has no value there. */
interface Difference {
  /** `inputSchema.properties.limit.maximum` */
  readonly path: string;
  readonly before?: unknown;
  readonly after?: unknown;
}

const SIMPLE_KEY = /^[\w$-]+$/;

/** True if two JSON values are equal. The order of keys does not matter. A value with too many levels equals no other. */
function isEqualJson(a: unknown, b: unknown, depth = MAX_DEPTH): boolean {
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
function findDifferences(path: string, before: unknown, after: unknown, limit: number): Difference[] {
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

/** The ways in which a server's tools can differ from the reviewed ones. */
export type DriftKind = "new" | "missing" | "duplicate" | "description" | "schema" | "annotations";

/** A tool that differs from the reviewed one. */
export interface ToolDrift {
  readonly name: string;
  /** The differences, at least one, in the order of DriftKind. */
  readonly kinds: readonly DriftKind[];
  /** Undefined for a new tool. */
  readonly reviewed: DescriptorTool | undefined;
  /** The server's tools of this name: none if it is missing, several if the name occurs more than once. */
  readonly live: readonly JsonObject[];
}

/**
 * Returns the differences between the reviewed tools and a server's list, sorted by name. Each of the server's tools is first converted to
 * the form that a descriptor has. Strings must then be equal; the order of keys does not matter. Names are not trimmed, because calls use
 * them unchanged. Tools without a name are ignored.
 */
export function compareTools(reviewed: readonly DescriptorTool[], live: readonly JsonObject[]): ToolDrift[] {
  const listed = new Map<string, JsonObject[]>();
  for (const tool of live) {
    const { name } = tool;
    if (typeof name !== "string" || name === "") continue;
    const namesakes = listed.get(name);
    if (namesakes === undefined) listed.set(name, [tool]);
    else namesakes.push(tool);
  }
  const drifts: ToolDrift[] = [];
  for (const tool of reviewed) {
    const { name } = tool;
    const found = listed.get(name) ?? [];
    listed.delete(name);
    const kinds = kindsOf(tool, found);
    if (kinds.length > 0) drifts.push({ name, kinds, reviewed: tool, live: found });
  }
  for (const [name, found] of listed) {
    drifts.push({ name, kinds: found.length > 1 ? ["new", "duplicate"] : ["new"], reviewed: undefined, live: found });
  }
  return drifts.sort((a, b) => (a.name < b.name ? -1 : 1));
}

function kindsOf(reviewed: DescriptorTool, [first, ...others]: readonly JsonObject[]): DriftKind[] {
  if (first === undefined) return ["missing"];
  const changed = changedParts(reviewed, first);
  return others.length === 0 ? changed : ["duplicate", ...changed];
}

/** Returns the parts in which a server's tool differs from the reviewed one of the same name; empty if they are equal. */
export function changedParts(reviewed: DescriptorTool, live: JsonObject): DriftKind[] {
  const changed: DriftKind[] = [];
  if (reviewed.description !== readDescription(live, reviewed.name)) changed.push("description");
  if (!isEqualJson(reviewed.inputSchema, readInputSchema(live))) changed.push("schema");
  if (!isEqualJson(reviewed.annotations, readAnnotations(live))) changed.push("annotations");
  return changed;
}

/** Returns a fingerprint of a drift. It does not depend on the order of keys, and differs if the server's definition differs. */
export function fingerprintOf({ name, kinds, live }: ToolDrift): string {
  const definitions = live.map((tool) => {
    try {
      const parts = { description: readDescription(tool, name), inputSchema: readInputSchema(tool), annotations: readAnnotations(tool) };
      return sortKeys(parts, MAX_DEPTH);
    } catch (error) {
      if (error instanceof DescriptorError) return error.message;
      throw error;
    }
  });
  return createHash("sha256")
    .update(JSON.stringify([name, kinds, definitions]))
    .digest("base64");
}

const MAX_LINES = 1000;
const MAX_LINES_PER_TOOL = 20;
const MAX_NAME_LENGTH = 128;
const MAX_PATH_LENGTH = 200;
const MAX_VALUE_LENGTH = 120;
/** The part of a long text that is shown before the first difference. */
const CONTEXT_LENGTH = 20;
const MAX_PREVIEW_DEPTH = 4;
const MAX_PREVIEW_MEMBERS = 10;
const PLAIN_NAME = /^[\w./:@-]+$/;

/** Returns one line for each difference, for the person who reviews it: `search: inputSchema.properties.limit.maximum: 100 -> 1000`. */
export function describeDrift(drifts: readonly ToolDrift[]): string[] {
  const lines: string[] = [];
  for (const [index, drift] of drifts.entries()) {
    if (lines.length >= MAX_LINES) return [...lines, `and ${drifts.length - index} more tools`];
    const name = readableName(drift.name);
    for (const line of describeTool(drift)) lines.push(`${name}: ${line}`);
  }
  return lines;
}

/** Returns a tool's name, shortened and on one line, and quoted if it has unusual characters. */
export function readableName(name: string): string {
  return name.length <= MAX_NAME_LENGTH && PLAIN_NAME.test(name) ? name : quote(name, 0, MAX_NAME_LENGTH);
}

function describeTool({ name, kinds, reviewed, live }: ToolDrift): string[] {
  const [first = {}] = live;
  const lines = live.length > 1 ? [`the server lists it ${live.length} times`] : [];
  if (reviewed === undefined) return [...lines, `new: ${preview(readDescription(first, name))}`];
  if (kinds.includes("missing")) return ["missing: the server does not list it"];
  const differences = [
    ...findDifferences("description", reviewed.description, readDescription(first, name), 1),
    ...differencesOf("inputSchema", reviewed.inputSchema, readInputSchema(first)),
    ...differencesOf("annotations", reviewed.annotations, readAnnotations(first)),
  ];
  for (const difference of differences.slice(0, MAX_LINES_PER_TOOL)) lines.push(describeDifference(difference));
  if (differences.length > MAX_LINES_PER_TOOL) lines.push("more differences");
  return lines;
}

function differencesOf(path: string, before: JsonObject | undefined, after: unknown): Difference[] {
  // A missing object is compared as an empty one, so that each member is shown.
  return findDifferences(path, before ?? {}, after ?? {}, MAX_LINES_PER_TOOL + 1);
}

function describeDifference(difference: Difference): string {
  const { path, before, after } = difference;
  const start = typeof before === "string" && typeof after === "string" ? Math.max(0, commonLength(before, after) - CONTEXT_LENGTH) : 0;
  const was = "before" in difference ? preview(before, start) : "(none)";
  const is = "after" in difference ? preview(after, start) : "(none)";
  return `${readable(path, MAX_PATH_LENGTH)}: ${was} -> ${is}`;
}

function commonLength(a: string, b: string): number {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length++;
  return length;
}

function preview(value: unknown, start = 0): string {
  if (typeof value === "string") return quote(value, start, MAX_VALUE_LENGTH);
  return readable(JSON.stringify(outline(value, MAX_PREVIEW_DEPTH)), MAX_VALUE_LENGTH);
}

/** Returns a text with visible characters, shortened. Only its beginning is read: a server may write megabytes of invisible characters. */
function readable(text: string, maxLength: number): string {
  // `beginning` may omit half of a surrogate pair, and the text must still be recognised as too long.
  return shorten(escapeInvisible(beginning(text, maxLength + 2)), maxLength);
}

/** Returns the text from `start` on as JSON, with an ellipsis for each omitted part. */
function quote(text: string, start: number, maxLength: number): string {
  const rest = text.slice(isInsidePair(text, start) ? start - 1 : start);
  const shown = beginning(rest, maxLength);
  return `${start > 0 ? "…" : ""}${escapeInvisible(JSON.stringify(shown))}${shown.length < rest.length ? "…" : ""}`;
}

/** Returns a copy of a value without its excess members and levels, so that any value can be shown. */
function outline(value: unknown, depth: number): unknown {
  if (typeof value === "string") return beginning(value, MAX_VALUE_LENGTH);
  if (typeof value === "object" && value !== null && depth === 0) return "…";
  if (Array.isArray(value)) return value.slice(0, MAX_PREVIEW_MEMBERS).map((element) => outline(element, depth - 1));
  if (!isJsonObject(value)) return value;
  const members = Object.entries(value).slice(0, MAX_PREVIEW_MEMBERS);
  return Object.fromEntries(members.map(([key, member]) => [beginning(key, MAX_VALUE_LENGTH), outline(member, depth - 1)]));
}
