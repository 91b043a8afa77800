import { readFileSync, statSync } from "node:fs";
import { buildDescriptor, type DescriptorTool, formatDescriptor, toDescriptorTool } from "../descriptor/descriptor.ts";
import { parseJson } from "../json/values.ts";
import { isJsonObject, type JsonObject } from "../jsonrpc/message.ts";
import { DiscoverError, type Listing } from "./discover-listing.ts";
import type { DiscoverOptions } from "./discover-options.ts";

/** The text of the descriptor of a listing. @throws DiscoverError for a tool that no descriptor can hold. */
export function snapshotText({ tools, protocolVersion }: Listing, options: DiscoverOptions, discoveredAt: Date): string {
  const { service, description, path, command, args, image } = options;
  return formatDescriptor(
    buildDescriptor({
      service: service ?? "",
      description: description ?? (service === undefined ? "MCP stdio tools." : undefined),
      path,
      tools: tools.map(readTool),
      discovery: { command, args, wrapperImage: image ?? "", discoveredAt, protocolVersion },
    }),
  );
}

function readTool(tool: JsonObject): DescriptorTool {
  const read = toDescriptorTool(tool);
  if (read !== undefined) return read;
  const reason = "its description, inputSchema or annotations are of the wrong type, or nested too deep";
  throw new DiscoverError(`tools/list: ${JSON.stringify(tool["name"])} cannot be written down: ${reason}`);
}

/** The `discovered_at` of the file, where it is the same snapshot in all but that. */
export function unchangedSince(path: string, textAt: (discoveredAt: Date) => string): string | undefined {
  let text: string;
  let value: unknown;
  try {
    // To read a pipe would wait for a writer.
    if (!statSync(path).isFile()) return undefined;
    text = readFileSync(path, "utf8");
    value = parseJson(text);
  } catch {
    // What is there is no descriptor: whether it can be replaced, the writing will tell.
    return undefined;
  }
  const recorded = isJsonObject(value) ? value["x-claw-discovery"] : undefined;
  const at = isJsonObject(recorded) ? String(recorded["discovered_at"]) : "";
  return !Number.isNaN(Date.parse(at)) && textAt(new Date(at)) === text ? at : undefined;
}
