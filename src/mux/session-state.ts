import { MAX_SUBSCRIPTIONS_PER_SESSION } from "./subscriptions.ts";

interface Wish {
  /** True if the server has confirmed a subscription. */
  isHeld: boolean;
  /** The number of subscribe requests in flight. */
  open: number;
}

/** Called at the end of a request. `hasResult` is false for an error. */
type OnSettled = (hasResult: boolean) => void;

/** The state that a client has set on its private server, and that is restored on each new generation. */
export class SessionState {
  readonly #wishes = new Map<string, Wish>();
  #level: string | undefined;
  #levelTurn = 0;
  #lastTurn = 0;
  /** True if the client has sent a change of its roots since `initialize`. */
  hasChangedRoots = false;

  /** The log level that was set last, in the order of the requests; undefined if none was set. */
  get level(): string | undefined {
    return this.#level;
  }

  setLevel(level: string): OnSettled {
    const turn = ++this.#lastTurn;
    return (hasResult) => {
      if (!hasResult || turn < this.#levelTurn) return;
      this.#level = level;
      this.#levelTurn = turn;
    };
  }

  /** @returns undefined if the client has too many subscriptions. */
  subscribe(uri: string): OnSettled | undefined {
    const wish = this.#wishes.get(uri) ?? { isHeld: false, open: 0 };
    if (!this.#wishes.has(uri) && this.#wishes.size >= MAX_SUBSCRIPTIONS_PER_SESSION) return undefined;
    this.#wishes.set(uri, wish);
    wish.open++;
    return (hasResult) => {
      wish.open--;
      wish.isHeld ||= hasResult;
      if (!wish.isHeld && wish.open === 0 && this.#wishes.get(uri) === wish) this.#wishes.delete(uri);
    };
  }

  /** Removes a subscription, independent of the server's response. */
  unsubscribe(uri: string): void {
    this.#wishes.delete(uri);
  }

  isSubscribed(uri: string): boolean {
    return this.#wishes.get(uri)?.isHeld === true;
  }

  /** Yields the resources whose subscription the server has confirmed. */
  *subscriptions(): Generator<string> {
    for (const [uri, { isHeld }] of this.#wishes) if (isHeld) yield uri;
  }
}
