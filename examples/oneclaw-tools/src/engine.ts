import { type Asker, Permissions } from "./permissions.ts";
import type { RegisteredTool, Registry } from "./registry.ts";
import type { Settings } from "./settings.ts";
import { Threads } from "./threads.ts";
import { failure, type ToolResult } from "./tool.ts";

const MAX_ARGUMENTS_BYTES = 4 * 1024 * 1024;

/** The life of a call. Source: "Execution Flow". */
export class Engine {
  readonly #registry: Registry;
  readonly #settings: Settings;
  readonly #permissions: Permissions;
  readonly #threads: Threads;

  /** @param modules URLs of the modules with the tools of the registry. */
  constructor(registry: Registry, settings: Settings, modules: readonly string[]) {
    [this.#registry, this.#settings] = [registry, settings];
    this.#permissions = new Permissions(settings.permissions);
    this.#threads = new Threads(modules, settings);
  }

  /** Resolves when no tool runs. */
  settled(): Promise<void> {
    return this.#threads.settled();
  }

  /** The tools that the agent may use. */
  get tools(): readonly RegisteredTool[] {
    return this.#registry.all.filter(({ name }) => this.#settings.tools.has(name));
  }

  /** Logs the outcome without its content. @throws only errors of the asker. */
  async call(name: string, args: unknown, asker: Asker, signal: AbortSignal): Promise<ToolResult> {
    const startMs = performance.now();
    const tool = this.tools.find((each) => each.name === name);
    const result =
      tool === undefined ? failure("validation_error", `Tool ${shown(name)} is not available`) : await this.#run(tool, args, asker, signal);
    const outcome = result.status === "success" ? result.status : result.error_type;
    process.stderr.write(`${tool?.name ?? "unknown tool"}: ${outcome} after ${Math.round(performance.now() - startMs)} ms\n`);
    return result;
  }

  async #run(tool: RegisteredTool, args: unknown, asker: Asker, signal: AbortSignal): Promise<ToolResult> {
    const bytes = Buffer.byteLength(JSON.stringify(args));
    if (bytes > MAX_ARGUMENTS_BYTES)
      return failure("validation_error", `The arguments have ${bytes} bytes. The limit is ${MAX_ARGUMENTS_BYTES} bytes`);
    const problem = tool.problemOf(args);
    if (problem !== undefined) return failure("validation_error", `Invalid arguments of ${tool.name}: ${problem}`);
    const refusal = await this.#permissions.require(tool.permissions, tool.name, asker);
    if (refusal !== undefined) return refusal;
    const timeoutMs = this.#settings.timeoutsMs.get(tool.name) ?? tool.timeoutMs;
    return this.#threads.run({ name: tool.name, args, timeoutMs, signal });
  }
}

function shown(name: string): string {
  return name.length > 100 ? `${name.slice(0, 100)}…` : name;
}
