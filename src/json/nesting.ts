const BITS = 16;

/** The open containers, from outermost to innermost. Each takes one bit, because a peer chooses how many there are. */
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

  /** True if the innermost container is an object; false if it is an array. */
  get isObject(): boolean {
    const depth = this.depth - 1;
    return ((this.#objects[Math.floor(depth / BITS)] ?? 0) & (1 << (depth % BITS))) !== 0;
  }
}
