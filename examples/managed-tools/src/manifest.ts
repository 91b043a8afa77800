// tools.json: the contract between `compile`, which writes it, and `mediate`, which reads it.

import { z } from "zod";

export const MANIFEST_FILE = "tools.json";
/** The name of an agent, and of its folder: that of a service in Compose. */
export const AGENT_NAME = /^[\w-][\w.-]*$/;

/** In the path of a service: `/orders/{id}` */
export const PLACEHOLDER = /\{([^{}]+)\}/g;
/** The longest time of a timer in milliseconds. */
export const MAX_MS = 2 ** 31 - 1;
/** Other characters cannot be sent in a header. */
export const TOKEN = /^[\x21-\x7e]+$/;

const JsonObject = z.record(z.string(), z.unknown());
const Auth = z.object({ type: z.literal("bearer"), token: z.string().regex(TOKEN) });

/** A call becomes an HTTP request. Arguments that are not in the path go into the query, or into a JSON body. */
const HttpExecution = z.object({
  transport: z.literal("http"),
  service: z.string(),
  base_url: z.string().refine(isHttpAddress),
  method: z.enum(["GET", "POST", "PUT", "PATCH", "DELETE"]),
  /** With placeholders. */
  path: z.string(),
  body: z.literal("json").optional(),
  auth: Auth.optional(),
});

/** A call becomes `tools/call` at an MCP server. */
const McpExecution = z.object({
  transport: z.literal("mcp"),
  service: z.string(),
  base_url: z.string().refine(isHttpAddress),
  path: z.string(),
  /** The name at the server. */
  tool: z.string(),
  auth: Auth.optional(),
});

/** True for the address of a server. An error would show credentials in it. */
export function isHttpAddress(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url !== undefined && /^https?:$/.test(url.protocol) && url.username + url.password + url.search + url.hash === "";
}

export const ManagedTool = z.object({
  /** `service.tool` */
  name: z.string(),
  description: z.string(),
  inputSchema: JsonObject,
  annotations: JsonObject.optional(),
  execution: z.discriminatedUnion("transport", [HttpExecution, McpExecution]),
});

export const Policy = z.object({
  max_rounds: z.int().positive(),
  timeout_per_tool_ms: z.int().positive().max(MAX_MS),
  total_timeout_ms: z.int().positive().max(MAX_MS),
  max_tool_result_bytes: z.int().min(256),
});

export const Manifest = z.object({ version: z.literal(1), tools: z.array(ManagedTool), policy: Policy });

export type HttpExecution = z.infer<typeof HttpExecution>;
export type McpExecution = z.infer<typeof McpExecution>;
export type ManagedTool = z.infer<typeof ManagedTool>;
export type Policy = z.infer<typeof Policy>;
export type Manifest = z.infer<typeof Manifest>;

export const DEFAULT_POLICY: Policy = {
  max_rounds: 8,
  timeout_per_tool_ms: 30_000,
  total_timeout_ms: 120_000,
  max_tool_result_bytes: 16_384,
};

export type JsonObject = z.infer<typeof JsonObject>;

/** False for a value that is nested so deeply that it may be impossible to write it again. */
export function isShallow(value: unknown, depth = 200): boolean {
  return typeof value !== "object" || value === null || (depth > 0 && Object.values(value).every((each) => isShallow(each, depth - 1)));
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
