import { type Asker, Permissions } from "./permissions.ts";
import type { RegisteredTool, Registry } from "./registry.ts";
import type { Settings } from "./settings.ts";
import { Threads } from "./threads.ts";
import { failure, type ToolResult } from "./tool.ts";

/** As many as the sidecar sends at the same time. */
const MAX_CALLS = 1024;
const MAX_LEVELS = 100;
/** Calls with long arguments hold this much together, so that they leave memory, and the places, to all others. */
const MAX_CHARACTERS = 64 * 1024 * 1024;
const LONG = 64 * 1024;

/** Of tools that wait, such as for a host. A crash hits the calls of one thread. Each host gets half of the places at most. */
const WAITING = { threads: 2, callsEach: 24, callsOfTarget: 24, memoryMib: 512 };
const COMPUTING = { callsEach: 1, callsOfTarget: Infinity, memoryMib: 128 };

/** The life of a call. Source: "Execution Flow". */
export class Engine {
  readonly #registry: Registry;
  readonly #settings: Settings;
  readonly #permissions: Permissions;
  readonly #computing: Threads;
  readonly #waiting: Threads;
  #calls = 0;
  #characters = 0;

  /** @param modules URLs of the modules with the tools of the registry. */
  constructor(registry: Registry, settings: Settings, modules: readonly string[]) {
    [this.#registry, this.#settings] = [registry, settings];
    this.#permissions = new Permissions(settings.permissions);
    this.#computing = new Threads(modules, settings, { ...COMPUTING, threads: settings.maxThreads });
    this.#waiting = new Threads(modules, settings, WAITING);
    this.#computing.prepare();
  }

  /** The tools that the agent may use. */
  get tools(): readonly RegisteredTool[] {
    return this.#registry.all.filter(({ name }) => this.#settings.tools.has(name));
  }

  /** Resolves when no tool runs. */
  async settled(): Promise<void> {
    await Promise.all([this.#computing.settled(), this.#waiting.settled()]);
  }

  /** Logs the outcome without its content. Never rejects. */
  async call(name: string, args: unknown, asker: Asker, signal: AbortSignal): Promise<ToolResult> {
    const startMs = performance.now();
    const tool = this.tools.find((each) => each.name === name);
    const result = await this.#check(name, tool, args, asker, signal);
    const outcome = result.status === "success" ? result.status : result.error_type;
    process.stderr.write(`${tool?.name ?? "unknown tool"}: ${outcome} after ${Math.round(performance.now() - startMs)} ms\n`);
    return result;
  }

  async #check(name: string, tool: RegisteredTool | undefined, args: unknown, asker: Asker, signal: AbortSignal): Promise<ToolResult> {
    if (tool === undefined) return failure("validation_error", `Tool ${name.slice(0, 100)} is not available`);
    const characters = charactersOf(args);
    const isPlain = !Number.isNaN(characters);
    const problem = isPlain ? tool.problemOf(args) : `They have more than ${MAX_LEVELS} levels, or half of a surrogate pair`;
    if (problem !== undefined) return failure("validation_error", `Invalid arguments of ${name}: ${problem}`);
    const long = characters > LONG ? characters : 0;
    if (this.#calls >= MAX_CALLS) return busy(`${MAX_CALLS} calls are under way`);
    if (long > 0 && this.#characters + long > MAX_CHARACTERS) return busy("calls with long arguments are under way");
    this.#calls += 1;
    this.#characters += long;
    return this.#run(tool, args, asker, signal).finally(() => {
      this.#calls -= 1;
      this.#characters -= long;
    });
  }

  async #run(
    { name, permissions, timeoutMs, waitsFor }: RegisteredTool,
    args: unknown,
    asker: Asker,
    signal: AbortSignal,
  ): Promise<ToolResult> {
    const refusal = await this.#permissions.require(permissions, name, asker);
    const threads = waitsFor === undefined ? this.#computing : this.#waiting;
    return refusal ?? threads.run({ name, args, target: waitsFor?.(args as never) ?? "", timeoutMs, signal });
  }
}

function busy(reason: string): ToolResult {
  return failure("execution_error", `The server is busy: ${reason}. Try again later`);
}

/** Values that are too deep for a thread end the process. Half of a surrogate pair would silently become another character. Both are NaN. */
function charactersOf(value: unknown, levels = MAX_LEVELS): number {
  if (typeof value === "string") return value.isWellFormed() ? value.length : Number.NaN;
  if (typeof value !== "object" || value === null) return 1;
  if (levels === 0) return Number.NaN;
  return Object.entries(value).reduce((sum, [key, each]) => sum + charactersOf(key, levels) + charactersOf(each, levels - 1), 0);
}
