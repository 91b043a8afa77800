interface Waiting {
  readonly target: string;
  readonly enter: () => void;
}

/** Places for calls, which wait for one in turn. Calls for the same target have a part of the places at most. */
export class Places {
  #free: number;
  readonly #mostOfTarget: number;
  readonly #taken = new Map<string, number>();
  readonly #waiting = new Set<Waiting>();

  constructor(places: number, mostOfTarget: number) {
    [this.#free, this.#mostOfTarget] = [places, mostOfTarget];
  }

  /** Runs the work at a free place. @returns false if the signal aborts before. */
  async run(target: string, signal: AbortSignal, work: () => Promise<void>): Promise<boolean> {
    if (!(await this.#turn(target, signal))) return false;
    try {
      if (signal.aborted) return false;
      await work();
      return true;
    } finally {
      this.#free += 1;
      this.#take(target, -1);
      this.#admit();
    }
  }

  /** @returns true when a place is taken, or false if the signal has aborted. */
  async #turn(target: string, signal: AbortSignal): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const waiting = { target, enter: () => resolve(true) };
    const withdraw = (): void => void (this.#waiting.delete(waiting) && resolve(false));
    this.#waiting.add(waiting);
    signal.addEventListener("abort", withdraw);
    if (signal.aborted) withdraw();
    this.#admit();
    return promise.finally(() => signal.removeEventListener("abort", withdraw));
  }

  #admit(): void {
    for (const waiting of this.#waiting) {
      if (this.#free === 0) return;
      if ((this.#taken.get(waiting.target) ?? 0) >= this.#mostOfTarget) continue;
      this.#waiting.delete(waiting);
      this.#free -= 1;
      this.#take(waiting.target, 1);
      waiting.enter();
    }
  }

  #take(target: string, change: number): void {
    const taken = (this.#taken.get(target) ?? 0) + change;
    if (taken === 0) this.#taken.delete(target);
    else this.#taken.set(target, taken);
  }
}
