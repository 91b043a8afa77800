/** A number for the tools whose names match; the first that does counts. */
export interface ToolNumber {
  readonly pattern: string;
  readonly value: number;
}

export interface ToolStatesOptions<State> {
  /** What a tool begins with; undefined where there is nothing to know of it. */
  readonly create: (toolName: string) => State | undefined;
  /** Whether `create` would make the same again, so that it can be forgotten. */
  readonly isAsNew: (state: State) => boolean;
  /** What tools have together that there is no more room for; without it, there always is. */
  readonly createShared?: (toolName: string) => State | undefined;
}

/** As many as are listed of a server. */
const MAX_TOOLS = 10_000;
/** By MCP 2025-11-25, server/tools, names have 128 characters at most. Longer ones with the same beginning count as one. */
const MAX_NAME_LENGTH = 1000;

/**
 * What is known of each tool that was called, by name. Names come from clients, which may make them up: what is as new is forgotten where
 * there is no more room, and nothing else, so that a flood of names cannot reset what was counted for another.
 */
export class ToolStates<State> {
  readonly #options: ToolStatesOptions<State>;
  /** What was not needed for longest comes first, as far as that was looked at. */
  readonly #states = new Map<string, State | undefined>();

  constructor(options: ToolStatesOptions<State>) {
    this.#options = options;
  }

  /** How many names are kept. */
  get size(): number {
    return this.#states.size;
  }

  get(toolName: string): State | undefined {
    const name = toolName.length <= MAX_NAME_LENGTH ? toolName : beginningOf(toolName);
    const known = this.#states.get(name);
    if (known !== undefined || this.#states.has(name)) return known;
    const { create, createShared } = this.#options;
    if (!this.#makeRoom() && createShared !== undefined) return createShared(name);
    const state = create(name);
    this.#states.set(name, state);
    return state;
  }

  /** Looks at the two oldest: one makes room for the next, the other for what came while none could go. */
  #makeRoom(): boolean {
    for (let count = 0; count < 2 && this.#states.size >= MAX_TOOLS; count++) {
      const [oldest] = this.#states;
      if (oldest === undefined) break;
      const [name, state] = oldest;
      this.#states.delete(name);
      if (state !== undefined && !this.#options.isAsNew(state)) this.#states.set(name, state);
    }
    return this.#states.size < MAX_TOOLS;
  }
}

/** A copy: what is cut from a long text keeps all of it in memory. */
function beginningOf(toolName: string): string {
  return Array.from(toolName.slice(0, MAX_NAME_LENGTH)).join("");
}
