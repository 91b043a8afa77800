import type { JsonObject } from "../../protocol/message.ts";
import { isReadOnly, namesOf } from "../../lane/tools/tool-annotations.ts";
import { createNameMatcher } from "./tool-names.ts";

/** Twice the most tools of one server. */
const MAX_KNOWN_NAMES = 20_000;
const MAX_KNOWN_LENGTH = 256;

/** The conditions for a visible tool. All of them must hold. */
export interface ToolFilterSettings {
  /** Patterns (see tool-names.ts). A name must match one of them; undefined allows all names. */
  readonly allowTools: readonly string[] | undefined;
  /** Patterns. A name must match none of them. */
  readonly denyTools: readonly string[] | undefined;
  /** Only tools that their server annotates as read-only. */
  readonly readOnly: boolean;
  /** Returns true if a tool equals the reviewed one; undefined if this is not required. */
  readonly isPinned: ((tool: JsonObject) => boolean) | undefined;
}

/** Returns true if clients may see and call a tool. @param tool as in `tools/list`. */
export type ToolFilter = (tool: JsonObject) => boolean;

/** Creates a filter. @returns undefined if no tool is hidden. */
export function createToolFilter({ allowTools, denyTools, readOnly, isPinned }: ToolFilterSettings): ToolFilter | undefined {
  const rules: ToolFilter[] = [];
  if (allowTools !== undefined) rules.push(byName(createNameMatcher(allowTools)));
  if (denyTools !== undefined) {
    const isDenied = createNameMatcher(denyTools);
    rules.push(byName((name) => !isDenied(name)));
  }
  if (readOnly) rules.push((tool) => isReadOnly(tool["annotations"]));
  if (isPinned !== undefined) rules.push(isPinned);
  if (rules.length === 0) return undefined;
  return (tool) => typeof tool["name"] === "string" && rules.every((holds) => holds(tool));
}

/** Returns the names that clients may call. */
export function visibleNames(tools: readonly JsonObject[], filter: ToolFilter = () => true): ReadonlySet<string> {
  return namesOf(tools, filter);
}

/** Creates a filter by name. It caches its results, because servers list the same names often and there may be hundreds of patterns. */
function byName(matches: (name: string) => boolean): ToolFilter {
  const known = new Map<string, boolean>();
  return ({ name }) => {
    if (typeof name !== "string") return false;
    const isKnown = known.get(name);
    if (isKnown !== undefined) return isKnown;
    const isMatch = matches(name);
    if (known.size >= MAX_KNOWN_NAMES) known.clear();
    if (name.length <= MAX_KNOWN_LENGTH) known.set(name, isMatch);
    return isMatch;
  };
}
