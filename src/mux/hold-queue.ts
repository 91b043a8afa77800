/** Something that waits for the server to be ready. Exactly one of `release` and `expire` is called, unless it is removed first. */
export interface Held {
  /** When it must not wait any longer. */
  readonly expiresAtMs: number;
  /** What it keeps in memory, in UTF-16 units. */
  readonly length: number;
  release(): void;
  expire(): void;
}

/** What came while the server was starting or restarting, in order of arrival, bounded in number and time. */
export class HoldQueue {
  readonly #maxEntries: number;
  #entries = new Set<Held>();

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** UTF-16 units that wait for the server to be ready. */
  get queuedLength(): number {
    let length = 0;
    for (const entry of this.#entries) length += entry.length;
    return length;
  }

  /** @returns false when the queue is full. */
  add(entry: Held): boolean {
    if (this.#entries.size >= this.#maxEntries) return false;
    this.#entries.add(entry);
    return true;
  }

  /** Takes entries that had been released and came back, ahead of all others. They were accepted before, so the limit does not count. */
  putBack(entries: readonly Held[]): void {
    this.#entries = new Set([...entries, ...this.#entries]);
  }

  remove(entry: Held): void {
    this.#entries.delete(entry);
  }

  releaseAll(): void {
    // A release may remove others, or add some for the next time.
    const releasable = this.#entries.values().toArray();
    for (const entry of releasable) if (this.#entries.delete(entry)) entry.release();
  }

  /** @returns when the next entry expires, or Infinity. */
  expire(nowMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const entry of this.#entries) {
      if (entry.expiresAtMs > nowMs) nextMs = Math.min(nextMs, entry.expiresAtMs);
      else {
        this.#entries.delete(entry);
        entry.expire();
      }
    }
    return nextMs;
  }
}
