import type { Principal } from "../principal.ts";

/** The number of ended sessions that are remembered, for all principals together. */
const MAX_ENDED = 16_384;
/** The end of an id is that of its signature, which no other id has. */
const NAME_LENGTH = 22;

/** The sessions that have ended at this process. A principal that ends many pushes only its own out of the memory. */
export class EndedSessions {
  /** The oldest first, by principal. */
  readonly #byOwner = new Map<Principal | undefined, Set<string>>();
  #size = 0;

  add(id: string, owner: Principal | undefined): void {
    const own = this.#byOwner.get(owner) ?? new Set();
    this.#byOwner.set(owner, own);
    this.#size -= own.size;
    own.add(nameOf(id));
    this.#size += own.size;
    if (this.#size > MAX_ENDED) this.#forgetOldest();
  }

  has(id: string, owner: Principal | undefined): boolean {
    return this.#byOwner.get(owner)?.has(nameOf(id)) === true;
  }

  /** Forgets the oldest session of the principal with the most. */
  #forgetOldest(): void {
    let largest = new Set<string>();
    for (const [owner, ended] of this.#byOwner) {
      if (owner?.isRevoked === true || ended.size === 0) {
        // The ids of a removed token are not valid any more.
        this.#byOwner.delete(owner);
        this.#size -= ended.size;
      } else if (ended.size > largest.size) largest = ended;
    }
    const [oldest] = largest;
    if (this.#size > MAX_ENDED && oldest !== undefined && largest.delete(oldest)) this.#size--;
  }
}

/** A copy, so that the id itself is not kept. */
function nameOf(id: string): string {
  return Buffer.from(id.slice(-NAME_LENGTH), "latin1").toString("latin1");
}
