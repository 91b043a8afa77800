/** A seeded source of random numbers (mulberry32). The same seed gives the same sequence. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** Returns a whole number between `from` and `to`, both included. */
  integer(from: number, to: number): number {
    return from + Math.floor(this.fraction() * (to - from + 1));
  }

  isLucky(probability: number): boolean {
    return this.fraction() < probability;
  }

  pick<Item>(items: readonly Item[]): Item | undefined {
    return items[Math.floor(this.fraction() * items.length)];
  }

  shuffled<Item>(items: readonly Item[]): Item[] {
    const result = [...items];
    for (let last = result.length - 1; last > 0; last--) {
      const other = this.integer(0, last);
      [result[last], result[other]] = [result[other] as Item, result[last] as Item];
    }
    return result;
  }

  /** Returns a new source for one part of the program, so that concurrent parts do not affect each other's numbers. */
  fork(): Random {
    return new Random(Math.floor(this.fraction() * 2 ** 32));
  }
}
