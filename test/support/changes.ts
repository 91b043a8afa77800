/** Only a hang reaches it. */
export const WAIT_TIMEOUT_MS = 120_000;

export async function withinWaitTimeout<Value>(promise: Promise<Value>, what: string): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`timeout before ${what}`)), WAIT_TIMEOUT_MS);
  });
  return Promise.race([promise, timeout]).finally(() => clearTimeout(timer));
}

/** Lets a test wait for a state that events bring about. */
export class Changes {
  readonly #waiting = new Set<() => void>();

  /** Called after each change of state. */
  readonly notify = (): void => {
    for (const look of this.#waiting) look();
  };

  /** Calls `find` at once and after each change, until it returns a value or throws. @param details shown after a timeout. */
  until<Found>(find: () => Found | undefined, what: string, details: () => string = () => ""): Promise<Found> {
    return new Promise((resolve, reject) => {
      const settle = (finish: () => void): void => {
        clearTimeout(timer);
        this.#waiting.delete(look);
        finish();
      };
      const look = (): void => {
        try {
          const found = find();
          if (found !== undefined) settle(() => resolve(found));
        } catch (error) {
          settle(() => reject(error));
        }
      };
      const timer = setTimeout(() => settle(() => reject(new Error(`timeout before ${what}${details()}`))), WAIT_TIMEOUT_MS);
      this.#waiting.add(look);
      look();
    });
  }
}
