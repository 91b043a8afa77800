/** Random numbers that follow from the seeds alone. */
export class Random {
  #state = 0x1234567;

  constructor(...seeds: readonly number[]) {
    for (const seed of seeds) {
      this.#state = Math.imul(this.#state ^ seed, 0x9e3779b1);
      this.next();
    }
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<Value>(values: readonly [Value, ...Value[]]): Value;
  /** Returns one of the values; undefined if there is none. */
  pick<Value>(values: Iterable<Value>): Value | undefined;
  pick<Value>(values: Iterable<Value>): Value | undefined {
    const list = [...values];
    return list[this.below(list.length)];
  }
}
