import { MAX_SUBSCRIPTIONS_PER_SESSION } from "./subscriptions.ts";

interface Wish {
  /** The server has said that it is subscribed. */
  isHeld: boolean;
  /** Requests for it that are not answered yet. */
  open: number;
}

/** Told how a request ended. */
type OnSettled = (hasResult: boolean) => void;

/** What a private server was told by its client and has to be told again when it is started anew. */
export class SessionState {
  readonly #wishes = new Map<string, Wish>();
  #level: string | undefined;
  #levelTurn = 0;
  #lastTurn = 0;
  /** The client has told that its roots have changed since `initialize`. */
  hasChangedRoots = false;

  /** The level that was set last, in the order of the requests; undefined where none was. */
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

  /** @returns undefined where there are too many already. */
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

  /** Whatever the server makes of it: the client does not want it any more. */
  unsubscribe(uri: string): void {
    this.#wishes.delete(uri);
  }

  isSubscribed(uri: string): boolean {
    return this.#wishes.get(uri)?.isHeld === true;
  }

  /** The resources that the server has said it is subscribed to. */
  *subscriptions(): Generator<string> {
    for (const [uri, { isHeld }] of this.#wishes) if (isHeld) yield uri;
  }
}
