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

/**
 * A semaphore that limits the concurrent calls of one tool in a lane, or the requests in turn. All of these share it. It keeps the holders
 * themselves, so that each slot is released only once, however its call ends.
 */
export class Semaphore {
  readonly #name: string;
  readonly limit: number;
  readonly #holders = new Set<object>();
  /** The queued calls of each owner. The queue maintains it. */
  readonly waiting = new Turns<object, readonly object[]>();

  /** @param name that of the calls that share it, for error messages. @param limit at least 1. */
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

  /** True if a new call may be sent at once, because a slot is free and no other call waits for it. */
  get isFree(): boolean {
    return this.waiting.size === 0 && this.freeCount > 0;
  }

  /** True if no call holds a slot or waits for one. */
  get isUnused(): boolean {
    return this.waiting.size === 0 && this.#holders.size === 0;
  }

  /** True if a queued call of this owner may be sent. Each free slot belongs to one of the owners that have waited longest. */
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

  /** Returns the reason why a call was not sent, for an error message. */
  describe(): string {
    return `${this.#name} has ${this.limit} in flight, ${this.waitingCount} queued`;
  }
}
