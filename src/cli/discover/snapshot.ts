import { readFileSync, statSync } from "node:fs";
import { buildDescriptor, type DescriptorTool, formatDescriptor, toDescriptorTool } from "../../descriptor/descriptor.ts";
import { shorten } from "../../json/text.ts";
import { parseJson } from "../../json/values.ts";
import { isJsonObject, type JsonObject } from "../../protocol/message.ts";
import { DiscoverError, type Listing } from "./listing.ts";
import type { DiscoverOptions } from "./options.ts";

/** Returns the text of a listing's descriptor. @throws DiscoverError if a tool cannot be stored in a descriptor. */
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
  const reason = "its description, inputSchema or annotations are of the wrong type, or nested too deeply";
  throw new DiscoverError(`tools/list: ${JSON.stringify(shorten(String(tool["name"])))} cannot be recorded: ${reason}`);
}

/** Returns the `discovered_at` of the file if it differs from the new snapshot only in that. */
export function unchangedSince(path: string, textAt: (discoveredAt: Date) => string): string | undefined {
  let text: string;
  let value: unknown;
  try {
    // Reading a named pipe would wait for a writer.
    if (!statSync(path).isFile()) return undefined;
    text = readFileSync(path, "utf8");
    value = parseJson(text);
  } catch {
    // The file is absent or not a descriptor. `writeDescriptor` checks if it can be replaced.
    return undefined;
  }
  const recorded = isJsonObject(value) ? value["x-claw-discovery"] : undefined;
  const at = isJsonObject(recorded) ? String(recorded["discovered_at"]) : "";
  return !Number.isNaN(Date.parse(at)) && textAt(new Date(at)) === text ? at : undefined;
}
