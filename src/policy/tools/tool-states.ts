import { MAX_TOOLS } from "../../lane/tools/tool-pages.ts";

/** A number for the tools whose names match the pattern. The first match counts. */
export interface ToolNumber {
  readonly pattern: string;
  readonly value: number;
}

export interface ToolStatesOptions<State> {
  /** Creates the state of a tool; undefined if it needs none. */
  readonly create: (toolName: string) => State | undefined;
  /** Returns true if the state equals a new one, so that it can be forgotten. */
  readonly isAsNew: (state: State) => boolean;
  /** Creates the state that further tools share when the table is full. Without this function, the table has no limit. */
  readonly createShared?: (toolName: string) => State | undefined;
}

/** Longer names with the same beginning count as one. MCP 2025-11-25, server/tools, allows 128 characters. In UTF-16 units. */
const MAX_NAME_LENGTH = 1000;

/**
 * The states of the called tools, by name. Clients may invent names. A full table forgets only states that equal a new one, so that a flood
 * of names cannot reset the count of another tool.
 */
export class ToolStates<State> {
  readonly #options: ToolStatesOptions<State>;
  /** The oldest states come first, except for those that could not be forgotten yet. */
  readonly #states = new Map<string, State | undefined>();

  constructor(options: ToolStatesOptions<State>) {
    this.#options = options;
  }

  /** The number of names in the table. */
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

  /** Checks the two oldest states. One makes room for the new state; the other reduces a table that could not shrink before. */
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

/** Returns a copy of the beginning, because a slice would keep the whole text in memory. */
function beginningOf(toolName: string): string {
  return Array.from(toolName.slice(0, MAX_NAME_LENGTH)).join("");
}
