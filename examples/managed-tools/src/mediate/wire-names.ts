import { createHash } from "node:crypto";
import type { ManagedTool, Manifest } from "../manifest.ts";
import type { WireTool } from "./format.ts";

/** Of OpenAI. Anthropic accepts longer names. */
const MAX_NAME_LENGTH = 64;
const HASH_LENGTH = 8;

/** The tools of a manifest, by the names that the model sees. */
export class WireTools {
  readonly tools: readonly WireTool[];
  readonly #byName = new Map<string, ManagedTool>();

  constructor({ tools }: Manifest) {
    this.tools = tools.map((tool) => {
      const name = wireName(tool.name);
      this.#byName.set(name, tool);
      // Providers reject a schema without properties.
      return { name, description: tool.description, inputSchema: { properties: {}, ...tool.inputSchema } };
    });
  }

  /** Finds a tool by the name on the wire, or by its own name, which a model may have read in its instructions. */
  find(name: string): ManagedTool | undefined {
    return this.#byName.get(name) ?? this.#byName.get(wireName(name));
  }
}

/** Providers reject a name with a dot, and a long one. */
function wireName(name: string): string {
  const plain = name.replace(".", "__").replaceAll(/[^\w-]/g, "_");
  const isSame = plain.replace("__", ".") === name && plain.length <= MAX_NAME_LENGTH;
  if (isSame) return plain;
  const hash = createHash("sha256").update(name).digest("hex").slice(0, HASH_LENGTH);
  return `${plain.slice(0, MAX_NAME_LENGTH - HASH_LENGTH - 1)}_${hash}`;
}
