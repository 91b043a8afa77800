/** Only a hang reaches it. */
const WAIT_TIMEOUT_MS = 120_000;

/** Lets a test wait for a state that one of several sources brings about. */
export class Changes {
  readonly #waiting = new Set<() => void>();

  /** Called after each change of state. */
  readonly notify = (): void => {
    for (const look of this.#waiting) look();
  };

  /** Calls `find` at once and after each change, until it returns a value. */
  until<Found>(find: () => Found | undefined, what: string): Promise<Found> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(look);
        reject(new Error(`timeout before ${what}`));
      }, WAIT_TIMEOUT_MS);
      const look = (): void => {
        const found = find();
        if (found === undefined) return;
        clearTimeout(timer);
        this.#waiting.delete(look);
        resolve(found);
      };
      this.#waiting.add(look);
      look();
    });
  }
}
