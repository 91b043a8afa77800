export interface RecentItemsOptions<Item> {
  readonly maxCount: number;
  /** The limit of the sum of all lengths; undefined for none. */
  readonly maxLength?: number;
  readonly lengthOf?: (item: Item) => number;
}

/** The last items of a series. */
export class RecentItems<Item> {
  readonly #maxCount: number;
  readonly #maxLength: number;
  readonly #lengthOf: (item: Item) => number;
  readonly #items: Item[] = [];
  #length = 0;
  #count = 0;

  constructor({ maxCount, maxLength = Number.POSITIVE_INFINITY, lengthOf = () => 0 }: RecentItemsOptions<Item>) {
    [this.#maxCount, this.#maxLength, this.#lengthOf] = [maxCount, maxLength, lengthOf];
  }

  /** The number of all items so far. */
  get count(): number {
    return this.#count;
  }

  add(item: Item): void {
    this.#items.push(item);
    this.#length += this.#lengthOf(item);
    this.#count++;
    while (this.#items.length > this.#maxCount || this.#length > this.#maxLength) {
      const oldest = this.#items.shift();
      if (oldest === undefined) return;
      this.#length -= this.#lengthOf(oldest);
    }
  }

  /** Returns the items after the first `seenCount` ones, as far as they are kept, oldest first. */
  after(seenCount: number): readonly Item[] {
    return this.#items.slice(Math.max(0, this.#items.length - (this.#count - seenCount)));
  }
}
