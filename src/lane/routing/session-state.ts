/** The state that a client has set on its private server, besides subscriptions. It is restored on each new generation. */
export class SessionState {
  #level: string | undefined;
  #levelSequence = 0;
  #lastSequence = 0;
  /** True if the client has sent a change of its roots since `initialize`. */
  hasChangedRoots = false;

  /** The log level that was set last, in the order of the requests; undefined if none was set. */
  get level(): string | undefined {
    return this.#level;
  }

  /** @returns a listener for the end of the request; `hasResult` is false for an error. */
  setLevel(level: string): (hasResult: boolean) => void {
    const sequence = ++this.#lastSequence;
    return (hasResult) => {
      if (!hasResult || sequence < this.#levelSequence) return;
      this.#level = level;
      this.#levelSequence = sequence;
    };
  }
}
