import { createHash } from "node:crypto";
import type { JsonObject } from "../protocol/message.ts";
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
