import { isObject, type JsonObject } from "../form/json-object.ts";

/** A tool as the server lists it. Only its name is checked. */
export interface ListedTool {
  readonly name: string;
  readonly title: string | undefined;
  readonly description: string | undefined;
  readonly annotations: JsonObject;
  readonly inputSchema: unknown;
  readonly outputSchema: unknown;
  /** True if it runs only as a task, which the page does not create. */
  readonly needsTask: boolean;
}

export interface ToolList {
  readonly tools: readonly ListedTool[];
  /** Entries of the list without a name. */
  readonly invalidCount: number;
}

/** Returns the tools of a result of `tools/list`. */
export function listedTools(entries: readonly unknown[]): ToolList {
  const tools = entries.flatMap((entry) =>
    isObject(entry) && typeof entry["name"] === "string" ? [listedTool(entry, entry["name"])] : [],
  );
  return { tools, invalidCount: entries.length - tools.length };
}

function listedTool(entry: JsonObject, name: string): ListedTool {
  const { title, description, annotations, inputSchema, outputSchema, execution } = entry;
  const ownTitle = text(title) ?? (isObject(annotations) ? text(annotations["title"]) : undefined);
  return {
    name,
    title: ownTitle,
    description: text(description),
    annotations: isObject(annotations) ? annotations : {},
    inputSchema,
    outputSchema,
    needsTask: isObject(execution) && execution["taskSupport"] === "required",
  };
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
