import { createHash } from "node:crypto";
import type { JsonObject } from "../jsonrpc/message.ts";
import {
  DescriptorError,
  type DescriptorTool,
  MAX_DEPTH,
  readAnnotations,
  readDescription,
  readInputSchema,
  sortKeys,
} from "./descriptor.ts";
import { isEqualJson } from "./json-difference.ts";

/** How the tools of a server can differ from those that were reviewed. */
export type DriftKind = "new" | "missing" | "duplicate" | "description" | "schema" | "annotations";

/** One tool that is not as it was reviewed. */
export interface ToolDrift {
  readonly name: string;
  /** At least one, in the order of DriftKind. */
  readonly kinds: readonly DriftKind[];
  /** None where it is new. */
  readonly reviewed: DescriptorTool | undefined;
  /** As the server lists it; all of them, where one name occurs several times. */
  readonly live: readonly JsonObject[];
}

/**
 * What differs between the reviewed tools and those that a server lists, by name. Each of the server's tools is first brought into the form that a
 * descriptor would have it in; strings must be the same then, objects may have their keys in any order. Names are those that are called: not trimmed.
 * What has no name is left out.
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

/** In what a tool of a server differs from the reviewed one of the same name. Empty: it is the reviewed one. */
export function changedParts(reviewed: DescriptorTool, live: JsonObject): DriftKind[] {
  const changed: DriftKind[] = [];
  if (reviewed.description !== readDescription(live, reviewed.name)) changed.push("description");
  if (!isEqualJson(reviewed.inputSchema, readInputSchema(live))) changed.push("schema");
  if (!isEqualJson(reviewed.annotations, readAnnotations(live))) changed.push("annotations");
  return changed;
}

/** The same for the same drift of the same tool, whatever the order of keys; another one where the server's definition is another one. */
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
