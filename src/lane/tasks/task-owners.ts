import type { MemoryHolder } from "../../memory/memory-budget.ts";

/** The error for a task that does not exist, or is of another client. */
export const UNKNOWN_TASK = "This task does not exist. The request was not sent.";

/** Beyond a limit, the oldest task is forgotten. Anybody who knows its id may then use it. */
const MAX_TASKS = 10_000;
const MAX_CLIENT_TASKS = 1000;
/** A longer id is not kept. In UTF-16 units. */
const MAX_ID_LENGTH = 256;

/**
 * The clients that have created tasks. A shared server sees one identity for all clients, so it could not notice that a client uses the task
 * of another one. Servers may keep tasks over a restart, so the owners are kept too.
 */
export class TaskOwners {
  readonly #owners = new Map<string, MemoryHolder>();
  /** The same tasks by client. No set is empty. */
  readonly #tasks = new Map<MemoryHolder, Set<string>>();

  /** Notes a new task. @param id undefined for a task that the server has not named. */
  add(id: string | undefined, holder: MemoryHolder): void {
    if (id === undefined || id.length > MAX_ID_LENGTH) return;
    this.#forget(id);
    this.#owners.set(id, holder);
    const own = this.#tasks.get(holder) ?? new Set();
    this.#tasks.set(holder, own.add(id));
    const [oldest] = own.size > MAX_CLIENT_TASKS ? own : this.#owners.size > MAX_TASKS ? this.#owners.keys() : [];
    if (oldest !== undefined) this.#forget(oldest);
  }

  #forget(id: string): void {
    const holder = this.#owners.get(id);
    if (holder === undefined) return;
    this.#owners.delete(id);
    const own = this.#tasks.get(holder);
    own?.delete(id);
    if (own?.size === 0) this.#tasks.delete(holder);
  }

  /** True if another client has created the task. */
  isOfOther(id: string | undefined, holder: MemoryHolder): boolean {
    const owner = id === undefined ? undefined : this.#owners.get(id);
    return owner !== undefined && owner !== holder;
  }
}
