const FIRST_BYTES = 65_536;

/** Collects chunks in one buffer: millions of chunks of a byte would need a hundred times their size. */
export class Collected {
  length = 0;
  #buffer = Buffer.allocUnsafe(FIRST_BYTES);

  add(chunk: Uint8Array): void {
    const length = this.length + chunk.length;
    if (length > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(length, 2 * this.#buffer.length));
      this.#buffer.copy(larger, 0, 0, this.length);
      this.#buffer = larger;
    }
    this.#buffer.set(chunk, this.length);
    this.length = length;
  }

  toString(): string {
    return this.#buffer.toString("utf8", 0, this.length);
  }
}

/** Reads a response up to a limit. A longer one is not read to its end. */
export async function readText(response: Response, maxBytes: number): Promise<{ readonly text: string; readonly isComplete: boolean }> {
  const collected = new Collected();
  for await (const chunk of response.body ?? []) {
    collected.add(chunk);
    if (collected.length > maxBytes) return { text: collected.toString(), isComplete: false };
  }
  return { text: collected.toString(), isComplete: true };
}
