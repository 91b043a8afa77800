/** The time for which the memory has been full. Room that costs clients something is made only after a while. */
export class FullTime {
  readonly #minMs: number;
  #sinceMs = 0;
  #untilMs = Number.NEGATIVE_INFINITY;

  constructor(minMs: number) {
    this.#minMs = minMs;
  }

  /** To be called whenever the memory is full. @returns true if it has been so for the minimum, without a pause of that length between two calls. */
  hasLasted(nowMs: number): boolean {
    if (nowMs - this.#untilMs > this.#minMs) this.#sinceMs = nowMs;
    this.#untilMs = nowMs;
    return nowMs - this.#sinceMs >= this.#minMs;
  }
}
