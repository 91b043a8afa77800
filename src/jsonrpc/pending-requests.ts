/** How long, and how many, requests that were given up are remembered, to tell a late answer from a wrong one. */
const LATE_MEMORY_MS = 5 * 60_000;
const LATE_MEMORY_ENTRIES = 1000;

interface Abandoned {
  readonly reason: string;
  /** The id of the session that made the request; undefined for a request of the sidecar. */
  readonly sessionId: string | undefined;
  readonly atMs: number;
}

/**
 * The requests sent to one peer that await its answer, under ids minted here: integers from a random one on, never reused (MCP 2025-11-25,
 * basic/index). Clients cannot guess them. Iterates in the order of minting.
 */
export class PendingRequests<Entry> {
  readonly #entries = new Map<number, Entry>();
  readonly #abandoned = new Map<number, Abandoned>();
  #lastId: number;

  /** @param lastId after which the first id comes. */
  constructor(lastId = randomId()) {
    this.#lastId = lastId;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** What was minted last. */
  get lastId(): number {
    return this.#lastId;
  }

  mintId(): number {
    return ++this.#lastId;
  }

  add(id: number, entry: Entry): void {
    this.#entries.set(id, entry);
  }

  get(id: unknown): Entry | undefined {
    return typeof id === "number" ? this.#entries.get(id) : undefined;
  }

  /** Removes and returns the entry, for an answer that has come. */
  take(id: unknown): Entry | undefined {
    const entry = this.get(id);
    if (typeof id === "number") this.#entries.delete(id);
    return entry;
  }

  /** Removes an entry whose answer nobody waits for any more. */
  abandon(id: number, reason: string, nowMs: number, sessionId?: string): void {
    if (!this.#entries.delete(id)) return;
    this.#abandoned.set(id, { reason, sessionId, atMs: nowMs });
    for (const [oldId, old] of this.#abandoned) {
      if (this.#abandoned.size <= LATE_MEMORY_ENTRIES && nowMs - old.atMs <= LATE_MEMORY_MS) break;
      this.#abandoned.delete(oldId);
    }
  }

  /** Why the request of a late answer was given up; asked once, then forgotten. */
  takeAbandoned(id: unknown): string | undefined {
    if (typeof id !== "number") return undefined;
    const abandoned = this.#abandoned.get(id);
    this.#abandoned.delete(id);
    return abandoned?.reason;
  }

  /** True if the peer may still work at a request that another session gave up. */
  hasAbandonedOfOthers(sessionId: string, nowMs: number): boolean {
    for (const abandoned of this.#abandoned.values()) {
      const isRemembered = nowMs - abandoned.atMs <= LATE_MEMORY_MS;
      if (isRemembered && abandoned.sessionId !== undefined && abandoned.sessionId !== sessionId) return true;
    }
    return false;
  }

  /** Forgets why requests were given up: the peer that might have answered late is gone. */
  forgetAbandoned(): void {
    this.#abandoned.clear();
  }

  values(): MapIterator<Entry> {
    return this.#entries.values();
  }
}

/** Some servers keep ids in 32 bits, with a sign: a billion requests fit in above. */
function randomId(): number {
  const [bits = 0] = crypto.getRandomValues(new Uint32Array(1));
  return bits >>> 2;
}
