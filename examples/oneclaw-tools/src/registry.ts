import { Ajv } from "@modelcontextprotocol/server/validators/ajv";
import type { Tool } from "./tool.ts";

/** snake_case. Providers allow at most 64 characters. */
const NAME = /^(?=.{1,64}$)[a-z][a-z0-9]*(?:_[a-z0-9]+)*$/;
const DEFAULT_TIMEOUT_MS = 30_000;

export interface RegisteredTool extends Tool {
  readonly timeoutMs: number;
  /** @returns the first problem of the arguments, or undefined if they match the schema. */
  readonly problemOf: (args: unknown) => string | undefined;
}

/** The tools by name. Source: "Tool Registration Interface". */
export class Registry {
  readonly #tools = new Map<string, RegisteredTool>();
  // Without `allErrors`, long arguments cannot cause a long list of errors.
  readonly #ajv = new Ajv({ strict: false });

  /** @param modules URLs of modules that export `tools`. Each thread imports them too. */
  static async load(modules: readonly string[]): Promise<Registry> {
    const registry = new Registry();
    for (const each of modules) for (const tool of ((await import(each)) as { tools: readonly Tool[] }).tools) registry.register(tool);
    return registry;
  }

  /** @throws Error if the tool is not valid, or its name is taken. */
  register(tool: Tool): void {
    const { name, description, parameters, timeoutMs = DEFAULT_TIMEOUT_MS } = tool;
    if (!NAME.test(name)) throw new Error(`The tool name ${JSON.stringify(name)} is not snake_case with at most 64 characters`);
    if (this.#tools.has(name)) throw new Error(`The tool name ${name} is already registered`);
    if (description === "" || parameters.type !== "object") throw new Error(`${name} needs a description, and parameters of type object`);
    if (!Number.isInteger(timeoutMs) || timeoutMs < 1) throw new Error(`The time limit of ${name} is not a positive whole number`);
    const validate = this.#ajv.compile(parameters);
    const problemOf = (args: unknown): string | undefined => {
      if (validate(args)) return undefined;
      const { instancePath = "", message = "", params = {} } = validate.errors?.[0] ?? {};
      const detail = Object.values(params as Record<string, unknown>)[0];
      const shown = /additional|allowed/.test(message) ? `: ${JSON.stringify(detail).slice(0, 100)}` : "";
      return `${instancePath.slice(1, 100) || "The arguments"} ${message}${shown}`;
    };
    this.#tools.set(name, { ...tool, timeoutMs, problemOf });
  }

  get all(): readonly RegisteredTool[] {
    return [...this.#tools.values()];
  }
}
