/** A map whose keys take turns. The next one comes first, and a new one last. */
export class Turns<Key, Value> extends Map<Key, Value> {
  /** Ends the turn of a key. Its next one comes after all others. */
  rotate(key: Key): void {
    const value = this.get(key);
    if (value === undefined) return;
    this.delete(key);
    this.set(key, value);
  }

  /** Gives these keys the next turns, in this order. Takes linear time. */
  advance(keys: readonly Key[]): void {
    for (const key of new Set([...keys, ...this.keys()])) this.rotate(key);
  }
}

/** Limits the calls of one tool in a lane, or the sidecar's requests in the background. It keeps the holders, so that each slot is released only once. */
export class Semaphore {
  readonly #name: string;
  readonly limit: number;
  readonly #holders = new Set<object>();
  readonly waiting = new Turns<object, readonly object[]>();

  constructor(name: string, limit: number) {
    this.#name = name;
    this.limit = limit;
  }

  get waitingCount(): number {
    return this.waiting.values().reduce((sum, { length }) => sum + length, 0);
  }

  get freeCount(): number {
    return this.limit - this.#holders.size;
  }

  get isFree(): boolean {
    return this.waiting.size === 0 && this.freeCount > 0;
  }

  get isUnused(): boolean {
    return this.waiting.size === 0 && this.#holders.size === 0;
  }

  /** For a queued call. Each free slot belongs to one of the owners that have waited longest. */
  isFreeFor(owner: object): boolean {
    const { freeCount } = this;
    return (
      freeCount > 0 &&
      this.waiting
        .keys()
        .take(freeCount)
        .some((each) => each === owner)
    );
  }

  acquire(holder: object): void {
    this.#holders.add(holder);
  }

  release(holder: object): void {
    this.#holders.delete(holder);
  }

  describe(): string {
    return `${this.#name} has ${this.limit} in flight, ${this.waitingCount} queued`;
  }
}
