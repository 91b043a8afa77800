import type { RequestMessage } from "../protocol/message.ts";
import type { Session } from "../sessions/session.ts";
import type { Lane } from "./lane.ts";

/** A lane and its supervised server. */
export interface SupervisedLane {
  readonly lane: Lane;
  /** Resolves when the server has exited and will not be restarted. Never rejects. */
  readonly ended: Promise<unknown>;
  /** Terminates the server. Takes bounded time; never rejects. */
  stop(): Promise<void>;
  kill(): void;
}

/** A lane in the pool. Its users are clients, from their `initialize` to the end of their session. */
export class PooledLane {
  readonly supervised: SupervisedLane;
  readonly sessions = new Set<Session>();
  readonly #onUnused: () => void;
  #users = 1;

  /** Its creator is the first user. @param onUnused called when the last user has released the lane. */
  constructor(supervised: SupervisedLane, onUnused: () => void) {
    this.supervised = supervised;
    this.#onUnused = onUnused;
  }

  /** Adds a user. */
  acquire(): this {
    this.#users++;
    return this;
  }

  /** Opens the session of a user. @param initialize the request that it began with. */
  open(session: Session, initialize: RequestMessage): void {
    this.sessions.add(session);
    this.supervised.lane.addSession(session, initialize);
  }

  /** Removes a user whose session has ended, or who has got none. To be called once for each. */
  release(session?: Session): void {
    if (session !== undefined) this.sessions.delete(session);
    this.#users--;
    if (this.#users === 0) this.#onUnused();
  }
}
