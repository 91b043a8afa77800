import { type Asker, Permissions } from "./permissions.ts";
import type { RegisteredTool, Registry } from "./registry.ts";
import type { Settings } from "./settings.ts";
import { Threads } from "./threads.ts";
import { failure, type ToolResult } from "./tool.ts";

const MAX_CALLS = 32;
const MAX_LEVELS = 100;

/** The life of a call. Source: "Execution Flow". */
export class Engine {
  readonly #registry: Registry;
  readonly #settings: Settings;
  readonly #permissions: Permissions;
  readonly threads: Threads;
  #calls = 0;

  /** @param modules URLs of the modules with the tools of the registry. */
  constructor(registry: Registry, settings: Settings, modules: readonly string[]) {
    [this.#registry, this.#settings] = [registry, settings];
    this.#permissions = new Permissions(settings.permissions);
    this.threads = new Threads(modules, settings);
  }

  /** The tools that the agent may use. */
  get tools(): readonly RegisteredTool[] {
    return this.#registry.all.filter(({ name }) => this.#settings.tools.has(name));
  }

  /** Logs the outcome without its content. Never rejects. */
  async call(name: string, args: unknown, asker: Asker, signal: AbortSignal): Promise<ToolResult> {
    const startMs = performance.now();
    const tool = this.tools.find((each) => each.name === name);
    this.#calls += 1;
    const result = await this.#run(name, tool, args, asker, signal).finally(() => (this.#calls -= 1));
    const outcome = result.status === "success" ? result.status : result.error_type;
    process.stderr.write(`${tool?.name ?? "unknown tool"}: ${outcome} after ${Math.round(performance.now() - startMs)} ms\n`);
    return result;
  }

  async #run(name: string, tool: RegisteredTool | undefined, args: unknown, asker: Asker, signal: AbortSignal): Promise<ToolResult> {
    if (tool === undefined) return failure("validation_error", `Tool ${name.slice(0, 100)} is not available`);
    if (this.#calls > MAX_CALLS) return failure("execution_error", `The server is busy: ${MAX_CALLS} calls are under way. Try again later`);
    const problem = isPlain(args) ? tool.problemOf(args) : `They have more than ${MAX_LEVELS} levels, or half of a surrogate pair`;
    if (problem !== undefined) return failure("validation_error", `Invalid arguments of ${name}: ${problem}`);
    const refusal = await this.#permissions.require(tool.permissions, name, asker);
    return refusal ?? this.threads.run({ name, args, timeoutMs: tool.timeoutMs, signal });
  }
}

/** Values that are too deep for a thread end the process. Half of a surrogate pair would silently become another character. */
function isPlain(value: unknown, levels = MAX_LEVELS): boolean {
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value !== "object" || value === null) return true;
  return levels > 0 && Object.entries(value).every((each) => each.every((part) => isPlain(part, levels - 1)));
}
