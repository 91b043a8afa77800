import type { MemoryHolder } from "../../memory/memory-budget.ts";

/** The oldest tasks are forgotten, those of a client with many first. Anybody who knows the id of a forgotten one may then use it. */
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

  /** Notes a new task. @param id undefined for a task that the server has not named. */
  add(id: string | undefined, holder: MemoryHolder): void {
    if (id === undefined || id.length > MAX_ID_LENGTH) return;
    this.#owners.delete(id);
    this.#owners.set(id, holder);
    const own = [...this.#owners.keys()].filter((each) => this.#owners.get(each) === holder);
    const [oldest] = own.length > MAX_CLIENT_TASKS ? own : this.#owners.size > MAX_TASKS ? this.#owners.keys() : [];
    if (oldest !== undefined) this.#owners.delete(oldest);
  }

  /** True if another client has created the task. */
  isOfOther(id: string | undefined, holder: MemoryHolder): boolean {
    const owner = id === undefined ? undefined : this.#owners.get(id);
    return owner !== undefined && owner !== holder;
  }
}
