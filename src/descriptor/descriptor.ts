import { escapeInvisible } from "../json/text.ts";
import { isJsonObject, type JsonObject } from "../jsonrpc/message.ts";

/** A schema is a few levels deep; beyond this, it is not walked through, stored or taken for equal. */
export const MAX_DEPTH = 128;

/** What a descriptor keeps of a tool. `outputSchema`, `title`, `icons`, `execution` and `_meta` are not part of it. */
export interface DescriptorTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonObject;
  readonly annotations?: JsonObject;
}

/** A descriptor of version 2 as `claw discover` writes it; by hand, it may have less of what surrounds the tools, and more. */
export interface Descriptor {
  readonly version: 2;
  readonly description?: string;
  readonly mcp?: JsonObject;
  readonly tools: readonly DescriptorTool[];
  /** How it was made: `command`, `args`, `wrapper_image`, `discovered_at`, … */
  readonly "x-claw-discovery"?: JsonObject;
}

export interface DescriptorSource {
  readonly service: string;
  /** Default: `<service> MCP stdio tools.` */
  readonly description?: string | undefined;
  /** Of the endpoint, for example `/mcp`. */
  readonly path: string;
  /** In the server's order. */
  readonly tools: readonly DescriptorTool[];
  readonly discovery: {
    readonly command: string;
    readonly args: readonly string[];
    readonly wrapperImage: string;
    readonly discoveredAt: Date;
    /** As `initialize` was answered. */
    readonly protocolVersion: string;
  };
}

/** What was read, or is to be written, is no descriptor. The message is for a person, and quotes nothing of the content but names. */
export class DescriptorError extends Error {
  override readonly name = "DescriptorError";
}

/**
 * A tool as a server lists it, in the form that a descriptor has it in.
 *
 * @returns undefined for what has no name, or cannot be stored as it is: a member of the wrong type, too many levels, a number beyond a double.
 */
export function toDescriptorTool(tool: JsonObject): DescriptorTool | undefined {
  const name = typeof tool["name"] === "string" ? tool["name"].trim() : "";
  if (name === "") return undefined;
  const description = readDescription(tool, name);
  const inputSchema = readInputSchema(tool);
  const annotations = readAnnotations(tool);
  if (typeof description !== "string" || !isJsonObject(inputSchema) || !isStorable(inputSchema, MAX_DEPTH)) return undefined;
  if (annotations === undefined) return { name, description, inputSchema };
  if (!isJsonObject(annotations) || !isStorable(annotations, MAX_DEPTH)) return undefined;
  return { name, description, inputSchema, annotations };
}

/** As it is stored; what is no string stays what it is. */
export function readDescription({ description }: JsonObject, name: string): unknown {
  if (typeof description !== "string") return description ?? missingDescription(name);
  const trimmed = description.trim();
  return trimmed === "" ? missingDescription(name) : trimmed;
}

function missingDescription(name: string): string {
  return `MCP tool ${name}.`;
}

/** As it is stored; what is no object stays what it is. */
export function readInputSchema({ inputSchema }: JsonObject): unknown {
  if (inputSchema === undefined || inputSchema === null) return { type: "object", properties: {} };
  return isJsonObject(inputSchema) ? { type: "object", ...inputSchema } : inputSchema;
}

/** Undefined where there are none, as `claw discover` leaves out empty ones; what is no object stays what it is. */
export function readAnnotations({ annotations }: JsonObject): unknown {
  const isEmpty = isJsonObject(annotations) && Object.keys(annotations).length === 0;
  return isEmpty || annotations === null ? undefined : annotations;
}

/** @throws DescriptorError where two tools have one name: nobody could tell which one was reviewed. */
export function buildDescriptor({ service, description = "", path, tools, discovery }: DescriptorSource): Descriptor {
  refuseDuplicates(tools);
  const { command, args, wrapperImage, discoveredAt, protocolVersion } = discovery;
  return {
    version: 2,
    description: description.trim() === "" ? `${service} MCP stdio tools.` : description.trim(),
    mcp: { transport: "streamable_http", path },
    tools,
    "x-claw-discovery": {
      command,
      args,
      wrapper_image: wrapperImage,
      discovered_at: discoveredAt.toISOString().replace(/\.\d+Z$/, "Z"),
      mcp_protocol_version: protocolVersion,
      tool_count: tools.length,
    },
  };
}

/** @throws DescriptorError that names the two. */
export function refuseDuplicates(tools: readonly DescriptorTool[]): void {
  const indexes = new Map<string, number>();
  for (const [index, { name }] of tools.entries()) {
    const first = indexes.get(name);
    if (first !== undefined) throw new DescriptorError(`tools[${first}] and tools[${index}] have the same name, ${JSON.stringify(name)}`);
    indexes.set(name, index);
  }
}

/**
 * The text of the file: 2 spaces, a final newline, and the keys of schemas and annotations in an order of their own, so that a diff shows
 * only what has changed.
 */
export function formatDescriptor({ version, description, mcp, tools, "x-claw-discovery": discovery }: Descriptor): string {
  const formatted = tools.map(({ name, description: text, inputSchema, annotations }) => ({
    name,
    description: text,
    inputSchema: sortKeys(inputSchema, MAX_DEPTH),
    ...(annotations === undefined ? {} : { annotations: sortKeys(annotations, MAX_DEPTH) }),
  }));
  const text = JSON.stringify({ version, description, mcp, tools: formatted, "x-claw-discovery": discovery }, undefined, 2);
  // A reviewer has to see every character.
  return `${text.split("\n").map(escapeInvisible).join("\n")}\n`;
}

/** @throws DescriptorError where there are too many levels. */
export function sortKeys(value: unknown, depth: number): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (depth === 0) throw new DescriptorError(`a schema has more than ${MAX_DEPTH} levels`);
  if (Array.isArray(value)) return value.map((element) => sortKeys(element, depth - 1));
  const members = Object.entries(value).map(([key, member]): [string, unknown] => [key, sortKeys(member, depth - 1)]);
  // Not by assignment, which would lose a member that is named `__proto__`.
  return Object.fromEntries(members.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Whether it can be written as JSON and read again as the same. */
function isStorable(value: unknown, depth: number): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || value === null) return true;
  return depth > 0 && Object.values(value).every((member) => isStorable(member, depth - 1));
}
