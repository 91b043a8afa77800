import type { JsonObject } from "../jsonrpc/message.ts";
import { isReadOnly } from "../mux/tool-annotations.ts";
import { createNameMatcher } from "./tool-names.ts";

/** As many tools as are listed of a server, and one server more. */
const MAX_KNOWN_NAMES = 20_000;
const MAX_KNOWN_LENGTH = 256;

/** Which tools exist for clients. All of it has to hold. */
export interface ToolFilterSettings {
  /** Patterns (see tool-names.ts), one of which a name has to match; all names where undefined. */
  readonly allowTools: readonly string[] | undefined;
  /** Patterns, none of which a name may match. */
  readonly denyTools: readonly string[] | undefined;
  /** Only tools that their server annotates as read-only. */
  readonly readOnly: boolean;
  /** Whether a tool is as it was reviewed; where undefined, nobody asks. */
  readonly isPinned: ((tool: JsonObject) => boolean) | undefined;
}

/** Whether clients may see and call a tool, as it is told in `tools/list`. */
export type ToolFilter = (tool: JsonObject) => boolean;

/** Undefined where nothing is hidden. */
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

/** The names that clients may call. Of two tools with one name nobody knows which one is called: it takes both to be visible. */
export function visibleNames(tools: readonly JsonObject[], filter: ToolFilter | undefined): ReadonlySet<string> {
  const visible = new Set<string>();
  const hidden = new Set<string>();
  for (const tool of tools) {
    const name = tool["name"];
    if (typeof name === "string") (filter === undefined || filter(tool) ? visible : hidden).add(name);
  }
  return visible.difference(hidden);
}

/** A server lists the same names again and again, and each may have to be matched with hundreds of patterns. */
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
