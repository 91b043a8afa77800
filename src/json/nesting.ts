const BITS = 16;

/** The containers that are open, from the outside in: one bit each, since a peer chooses how many there are. */
export class Nesting {
  depth = 0;
  readonly #objects: number[] = [0];

  clear(): void {
    this.depth = 0;
  }

  open(isObject: boolean): void {
    const depth = this.depth++;
    const word = Math.floor(depth / BITS);
    const bit = 1 << (depth % BITS);
    if (word === this.#objects.length) this.#objects.push(0);
    const bits = this.#objects[word] ?? 0;
    this.#objects[word] = isObject ? bits | bit : bits & ~bit;
  }

  close(): void {
    this.depth--;
  }

  /** Whether the innermost one is an object; false for an array. */
  get isObject(): boolean {
    const depth = this.depth - 1;
    return ((this.#objects[Math.floor(depth / BITS)] ?? 0) & (1 << (depth % BITS))) !== 0;
  }
}
