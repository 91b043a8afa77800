import type { MemoryHolder } from "../../memory/memory-budget.ts";

/** A body that arrives in parts. */
export interface ArrivingBody {
  readonly holder: MemoryHolder;
  /** The memory of the parts that have arrived. */
  readonly bytes: number;
  /** Rejects it for lack of memory, which frees its memory. */
  reject(): void;
}

/** The bodies that arrive in parts, by client. */
export class ArrivingBodies {
  readonly #byHolder = new Map<MemoryHolder, Set<ArrivingBody>>();

  add(body: ArrivingBody): void {
    const bodies = this.#byHolder.get(body.holder) ?? new Set();
    this.#byHolder.set(body.holder, bodies.add(body));
  }

  delete(body: ArrivingBody): void {
    const bodies = this.#byHolder.get(body.holder);
    bodies?.delete(body);
    if (bodies?.size === 0) this.#byHolder.delete(body.holder);
  }

  /** Rejects bodies of a client until this much memory is free. Those that have taken longest are first. */
  reject(bytes: number, holder: MemoryHolder): void {
    let freeBytes = 0;
    for (const body of this.#byHolder.get(holder) ?? []) {
      if (freeBytes >= bytes) return;
      freeBytes += body.bytes;
      body.reject();
    }
  }
}
