/** To go on would take too long. */
export class TooMuchWorkError extends Error {
  override readonly name = "TooMuchWorkError";
}

/** To look at a value at all, as against one more item of it. */
const STEPS_OF_VISIT = 30;

/**
 * Bounds what one check may take, in steps of some nanoseconds. A schema that refers to itself, or a pattern, makes of a short input
 * as much work as somebody wishes, and nothing else is done meanwhile.
 */
export class WorkLimit {
  #left = 0;

  /** From now on, so many steps. */
  begin(steps: number): void {
    this.#left = steps;
  }

  /** @throws TooMuchWorkError */
  readonly spend = (steps: number): void => {
    this.#left -= steps;
    if (this.#left < 0) throw new TooMuchWorkError("it takes too long");
  };

  /** What it takes to go over the items or members of a value. */
  readonly spendOn = (value: unknown): void => {
    if (Array.isArray(value)) this.spend(STEPS_OF_VISIT + value.length);
    else this.spend(typeof value === "object" && value !== null ? STEPS_OF_VISIT + Object.keys(value).length : STEPS_OF_VISIT);
  };
}
