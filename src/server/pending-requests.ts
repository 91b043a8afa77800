/** The limits of the memory of abandoned requests. It distinguishes a late response from one with a wrong id. */
const LATE_MEMORY_MS = 5 * 60_000;
const LATE_MEMORY_ENTRIES = 1000;

/**
 * The requests to one peer that await their responses, by id. Ids are consecutive integers from a random one on and are never reused
 * (MCP 2025-11-25, basic/index), so clients cannot guess them. Iterates in the order of ids.
 */
export class PendingRequests<Entry> extends Map<unknown, Entry> {
  readonly #abandoned = new Map<unknown, { readonly reason: string; readonly atMs: number }>();
  readonly #firstId: number;
  #lastId: number;
  /** The highest id that the peer has answered. It answers in any order, but reads in the order of ids. */
  #highestAnsweredId = 0;
  /** The last id when a request was abandoned; -1 before. */
  #lastIdAtAbandon = -1;
  /** The last id when the peer was sent anything else; -1 before. */
  #lastIdAtNotification = -1;

  /** @param lastId the number before the first id. */
  constructor(lastId = randomId()) {
    super();
    this.#firstId = lastId + 1;
    this.#lastId = lastId;
  }

  mintId(): number {
    return ++this.#lastId;
  }

  /** True if `mintId` has returned this id. */
  hasMinted(id: unknown): boolean {
    return typeof id === "number" && id >= this.#firstId && id <= this.#lastId;
  }

  /** Must be called for each response. */
  onAnswered(id: number): void {
    this.#highestAnsweredId = Math.max(this.#highestAnsweredId, id);
  }

  /** True if the peer may not have read yet that a request was abandoned: it has answered none that was sent later. */
  get hasUnreadAbandoned(): boolean {
    return this.#lastIdAtAbandon >= this.#highestAnsweredId;
  }

  /** Must be called when the peer is sent anything but a request. */
  onNotification(): void {
    this.#lastIdAtNotification = this.#lastId;
  }

  /** True if the peer may not have read all that it was sent besides requests: it has answered none that was sent later. */
  get hasUnreadNotification(): boolean {
    return Math.max(this.#lastIdAtNotification, this.#lastIdAtAbandon) >= this.#highestAnsweredId;
  }

  /** Removes an entry whose response is no longer awaited, and remembers the reason. */
  abandon(id: number, reason: string, nowMs: number): void {
    if (!this.delete(id)) return;
    this.#abandoned.set(id, { reason, atMs: nowMs });
    this.#lastIdAtAbandon = this.#lastId;
    for (const [oldId, old] of this.#abandoned) {
      if (this.#abandoned.size <= LATE_MEMORY_ENTRIES && nowMs - old.atMs <= LATE_MEMORY_MS) break;
      this.#abandoned.delete(oldId);
    }
  }

  /** Returns why the request of a late response was abandoned, and forgets it. */
  takeAbandoned(id: unknown): string | undefined {
    const abandoned = this.#abandoned.get(id);
    this.#abandoned.delete(id);
    return abandoned?.reason;
  }

  /** Forgets the abandoned requests, because the peer that could have answered them has exited. */
  forgetAbandoned(): void {
    this.#abandoned.clear();
    this.#lastIdAtAbandon = this.#lastIdAtNotification = -1;
  }
}

/** Some servers keep ids in signed 32-bit integers. This leaves room for a billion requests. */
function randomId(): number {
  const [bits = 0] = crypto.getRandomValues(new Uint32Array(1));
  return bits >>> 2;
}
