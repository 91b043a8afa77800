/** A seeded source of random numbers (mulberry32). The same seeds give the same sequence. */
export class Random {
  #state = 0x1234567;

  constructor(...seeds: readonly number[]) {
    for (const seed of seeds) {
      this.#state = Math.imul(this.#state ^ seed, 0x9e3779b1);
      this.fraction();
    }
  }

  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  below(limit: number): number {
    return Math.floor(this.fraction() * limit);
  }

  /** Returns a whole number between `from` and `to`, both included. */
  integer(from: number, to: number): number {
    return from + this.below(to - from + 1);
  }

  isLucky(probability: number): boolean {
    return this.fraction() < probability;
  }

  pick<Value>(values: readonly [Value, ...Value[]]): Value;
  /** Returns one of the values; undefined if there is none. */
  pick<Value>(values: Iterable<Value>): Value | undefined;
  pick<Value>(values: Iterable<Value>): Value | undefined {
    const list = [...values];
    return list[this.below(list.length)];
  }

  shuffled<Item>(items: readonly Item[]): Item[] {
    const result = [...items];
    for (let last = result.length - 1; last > 0; last--) {
      const other = this.below(last + 1);
      [result[last], result[other]] = [result[other] as Item, result[last] as Item];
    }
    return result;
  }

  /** Returns a new source for one part of the program, so that concurrent parts do not affect each other's numbers. */
  fork(): Random {
    return new Random(this.below(2 ** 32));
  }
}
