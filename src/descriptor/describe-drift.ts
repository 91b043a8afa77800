import { beginning, escapeInvisible, isInsidePair, shorten } from "../json/text.ts";
import { isJsonObject, type JsonObject } from "../protocol/message.ts";
import { readAnnotations, readDescription, readInputSchema } from "./descriptor.ts";
import type { ToolDrift } from "./drift.ts";
import { type Difference, findDifferences } from "./json-difference.ts";

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
