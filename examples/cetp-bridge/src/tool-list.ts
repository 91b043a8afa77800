import { z } from "zod";
import { cleanLine, isSafe } from "./text.ts";

const MAX_DESCRIPTION_CHARACTERS = 1000;
const MAX_TOOLS = 64;
const MAX_DEPTH = 24;
const UNSAFE_KEY = /^(?:__proto__|x-mcp-)/i;
/** Strings of a schema that are texts for people. All others are compared with arguments. */
const TEXT_KEY = /^(?:title|description|\$comment)$/;

const List = z.object({ tools: z.array(z.unknown()).max(MAX_TOOLS) });
const Spec = z.object({
  name: z.string().min(1).max(128).refine(isSafe),
  description: z.string().catch(""),
  parameters: z.unknown().optional(),
});
/** The checks of clients. A single tool that breaks it would make them reject the whole list. */
const Parameters = z.looseObject({
  $schema: z.string().optional(),
  type: z.literal("object").default("object"),
  properties: z.record(z.string(), z.looseObject({})).optional(),
  required: z.array(z.string()).optional(),
});

export interface ToolSpec {
  readonly name: string;
  readonly description: string;
  readonly parameters: z.infer<typeof Parameters>;
}

/** Reads the data of `list_tools`, as a value. Each problem is for the log. @throws {Error} if there is no list. */
export function readToolList(data: unknown): { readonly tools: readonly ToolSpec[]; readonly problems: readonly string[] } {
  const list = List.safeParse(data);
  if (!list.success) throw new Error(`the list is not {"tools": […]} with at most ${MAX_TOOLS} tools`);
  const [tools, problems] = [new Map<string, ToolSpec>(), new Array<string>()];
  for (const [index, each] of list.data.tools.entries()) {
    const spec = Spec.safeParse(each);
    if (!spec.success) {
      problems.push(`tool ${index + 1} is not listed: its name is not a safe text of 1 to 128 characters`);
      continue;
    }
    const { name, description } = spec.data;
    const parameters = Parameters.safeParse(safeSchema(spec.data.parameters ?? {}));
    if (!parameters.success) problems.push(`the parameters of ${name} are not the schema of an object: any are accepted`);
    if (tools.has(name)) problems.push(`there is another tool ${name}: the first is listed`);
    else
      tools.set(name, {
        name,
        description: cleanLine(description, MAX_DESCRIPTION_CHARACTERS),
        parameters: parameters.data ?? { type: "object" },
      });
  }
  return { tools: [...tools.values()], problems };
}

/** Returns the same without unsafe texts, keys with a meaning for MCP, and what is nested too deeply: these are undefined. */
function safeSchema(value: unknown, key = "", depth = 0): unknown {
  if (typeof value === "string")
    return TEXT_KEY.test(key) ? cleanLine(value, MAX_DESCRIPTION_CHARACTERS) : isSafe(value) ? value : undefined;
  if (typeof value !== "object" || value === null) return value;
  if (depth > MAX_DEPTH) return undefined;
  if (Array.isArray(value)) return value.map((each) => safeSchema(each, "", depth + 1)).filter((each) => each !== undefined);
  const entries = Object.entries(value).filter(([name]) => isSafe(name) && !UNSAFE_KEY.test(name));
  const safe = entries.map(([name, each]) => [name, safeSchema(each, name, depth + 1)] as const);
  return Object.fromEntries(safe.filter(([, each]) => each !== undefined));
}
