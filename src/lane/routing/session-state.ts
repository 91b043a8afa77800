import { MAX_SUBSCRIPTIONS_PER_SESSION } from "./subscriptions.ts";

interface Subscription {
  /** True if the server has confirmed a subscription. */
  isConfirmed: boolean;
  /** The number of subscribe requests in flight. */
  requestsInFlight: number;
}

/** Called at the end of a request. `hasResult` is false for an error. */
type OnSettled = (hasResult: boolean) => void;

/** The state that a client has set on its private server, and that is restored on each new generation. */
export class SessionState {
  readonly #subscriptions = new Map<string, Subscription>();
  #level: string | undefined;
  #levelSequence = 0;
  #lastSequence = 0;
  /** True if the client has sent a change of its roots since `initialize`. */
  hasChangedRoots = false;

  /** The log level that was set last, in the order of the requests; undefined if none was set. */
  get level(): string | undefined {
    return this.#level;
  }

  setLevel(level: string): OnSettled {
    const sequence = ++this.#lastSequence;
    return (hasResult) => {
      if (!hasResult || sequence < this.#levelSequence) return;
      this.#level = level;
      this.#levelSequence = sequence;
    };
  }

  /** @returns undefined if the client has too many subscriptions. */
  subscribe(uri: string): OnSettled | undefined {
    const subscription = this.#subscriptions.get(uri) ?? { isConfirmed: false, requestsInFlight: 0 };
    if (!this.#subscriptions.has(uri) && this.#subscriptions.size >= MAX_SUBSCRIPTIONS_PER_SESSION) return undefined;
    this.#subscriptions.set(uri, subscription);
    subscription.requestsInFlight++;
    return (hasResult) => {
      subscription.requestsInFlight--;
      subscription.isConfirmed ||= hasResult;
      if (!subscription.isConfirmed && subscription.requestsInFlight === 0 && this.#subscriptions.get(uri) === subscription)
        this.#subscriptions.delete(uri);
    };
  }

  /** Removes a subscription, independent of the server's response. */
  unsubscribe(uri: string): void {
    this.#subscriptions.delete(uri);
  }

  isSubscribed(uri: string): boolean {
    return this.#subscriptions.get(uri)?.isConfirmed === true;
  }

  /** Yields the resources whose subscription the server has confirmed. */
  *subscriptions(): Generator<string> {
    for (const [uri, { isConfirmed }] of this.#subscriptions) if (isConfirmed) yield uri;
  }
}
