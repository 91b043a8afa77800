// The tools that can be called now, and where they come from: "clawseed-api", Tool and ToolRegistry.

import { isDeepStrictEqual } from "node:util";

export interface ToolSpec {
  readonly name: string;
  readonly description: string;
  /** A JSON Schema. */
  readonly parameters: { readonly type: "object" };
}

export interface ToolResult {
  readonly success: boolean;
  readonly output: string;
  readonly error?: string;
}

export const failure = (error: string): ToolResult => ({ success: false, output: "", error });

export type Arguments = Readonly<Record<string, unknown>>;

export interface ToolContext {
  /** A UUID. */
  readonly callId: string;
  /** Aborts if the client cancels the call. */
  readonly signal: AbortSignal;
}

export interface Tool {
  readonly spec: ToolSpec;
  readonly execute: (args: Arguments, context: ToolContext) => Promise<ToolResult>;
}

/** Without `Mcp { server }`, since no tool comes from there. */
export type ToolSource = { readonly kind: "builtIn" } | { readonly kind: "remote"; readonly session: string };

/** A comparison of the objects would take long for thousands of tools. */
const sessionOf = (source: ToolSource): string => (source.kind === "remote" ? source.session : "");

export class ToolRegistry {
  readonly #entries = new Map<string, { readonly tool: Tool; readonly source: ToolSource }>();
  readonly #onChanged: () => void;

  /** @param onChanged is called when `toolSpecs` has changed. */
  constructor(onChanged: () => void) {
    this.#onChanged = onChanged;
  }

  /** Replaces a tool with the same name. Clients see no change if its spec is the same, as after a reconnection. */
  registerOrReplace(tool: Tool, source: ToolSource): void {
    const replaced = this.getTool(tool.spec.name);
    this.#entries.set(tool.spec.name, { tool, source });
    if (!isDeepStrictEqual(replaced?.spec, tool.spec)) this.#onChanged();
  }

  unregister(name: string): void {
    if (this.#entries.delete(name)) this.#onChanged();
  }

  unregisterBySource(source: ToolSource): void {
    for (const name of this.toolNames(source)) this.unregister(name);
  }

  getTool(name: string): Tool | undefined {
    return this.#entries.get(name)?.tool;
  }

  toolNames(source: ToolSource): string[] {
    return [...this.#entries].filter(([, entry]) => sessionOf(entry.source) === sessionOf(source)).map(([name]) => name);
  }

  /** Returns all specs by name, so that the order does not depend on connections. */
  toolSpecs(): ToolSpec[] {
    const specs = [...this.#entries.values()].map(({ tool }) => tool.spec);
    return specs.sort((a, b) => (a.name < b.name ? -1 : 1));
  }
}
