/** Tasks whose progress can still be told; beyond it that of the oldest is lost, since nobody says when a task was forgotten. */
const MAX_TASKS = 1024;

/**
 * What progress tokens stand for once their request was answered with a task: they stay valid until the task has ended (MCP 2025-11-25,
 * basic/utilities/progress).
 */
export class TaskTokens<Owner> {
  readonly #owners = new Map<number, Owner>();

  /** @param id of the request that was answered with a task, which is its token, too. */
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

  /** Who runs the tasks is gone. */
  clear(): void {
    this.#owners.clear();
  }
}
