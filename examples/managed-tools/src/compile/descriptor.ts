import { z } from "zod";
import { PLACEHOLDER } from "../manifest.ts";

const Tool = z.looseObject({
  name: z.string().regex(/^[\w./-]{1,128}$/, { error: "expected letters, digits and _ - . /" }),
  description: z.string().default(""),
  inputSchema: z
    .looseObject({ type: z.literal("object").default("object"), properties: z.record(z.string(), z.unknown()).optional() })
    .prefault({}),
  annotations: z.record(z.string(), z.unknown()).optional(),
  http: z
    .strictObject({
      method: z.enum(["GET", "POST", "PUT", "PATCH", "DELETE"]),
      path: z.string().startsWith("/"),
      body: z.literal("json").optional(),
    })
    .optional(),
});

/** A descriptor of version 2: tools over HTTP, written by hand, or those of an MCP server, written by `claw-mcp-stdio discover`. */
export const Descriptor = z.looseObject({
  version: z.literal(2, { error: "only version 2 has tools" }),
  tools: z.array(Tool),
  auth: z.strictObject({ type: z.literal("bearer"), env: z.string() }).optional(),
  mcp: z.looseObject({ transport: z.literal("streamable_http"), path: z.string().startsWith("/") }).optional(),
  "x-claw-discovery": z.looseObject({ command: z.string(), args: z.array(z.string()), wrapper_image: z.string() }).optional(),
});

export type Descriptor = z.infer<typeof Descriptor>;
export type DescribedTool = Descriptor["tools"][number];

/** Returns the names of the placeholders in a path: `{id}` */
export function placeholdersOf(path: string): string[] {
  return [...path.matchAll(PLACEHOLDER)].map(([, name = ""]) => name);
}
