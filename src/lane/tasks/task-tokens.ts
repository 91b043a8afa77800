/** The maximum number of tokens. The oldest is dropped above it, since the end of a task is not reported. */
const MAX_TASKS = 1024;

/**
 * The owners of progress tokens whose request was answered with a task. The tokens stay valid until the end of the task (MCP 2025-11-25,
 * basic/utilities/progress).
 */
export class TaskTokens<Owner> {
  readonly #owners = new Map<number, Owner>();

  /** @param id the id of the request that was answered with a task, which is also its progress token. */
  keep(id: number, owner: Owner): void {
    this.#owners.set(id, owner);
    const [oldest] = this.#owners.keys();
    if (this.#owners.size > MAX_TASKS && oldest !== undefined) this.#owners.delete(oldest);
  }

  get(token: unknown): Owner | undefined {
    return typeof token === "number" ? this.#owners.get(token) : undefined;
  }

  deleteWhere(isOver: (owner: Owner) => boolean): void {
    for (const [id, owner] of this.#owners) if (isOver(owner)) this.#owners.delete(id);
  }

  /** Removes all tokens. Called when the server that runs the tasks is lost. */
  clear(): void {
    this.#owners.clear();
  }
}
