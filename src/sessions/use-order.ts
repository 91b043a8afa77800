import type { Session } from "./session.ts";

/** The place of a session in an order. */
export class Place {
  /** Undefined for the end of the order. */
  readonly session: Session | undefined;
  /** Both are this place itself if it is in no order. */
  earlier: Place = this;
  later: Place = this;

  constructor(session?: Session) {
    this.session = session;
  }

  leave(): void {
    this.earlier.later = this.later;
    this.later.earlier = this.earlier;
    this.earlier = this;
    this.later = this;
  }
}

/**
 * Sessions in the order of their last use. It is a linked list, because each message of a client moves its session: the move must cost the
 * same beside any number of idle sessions.
 */
export class UseOrder {
  readonly #end = new Place();

  /** Moves a place to the end, or adds it there. */
  use(place: Place): void {
    const end = this.#end;
    if (end.earlier === place) return;
    place.leave();
    place.earlier = end.earlier;
    place.later = end;
    end.earlier.later = place;
    end.earlier = place;
  }

  /**
   * Returns the session that was unused for longest; undefined if all are in use. A session in use leaves the order until its next use, and
   * the end of its use counts as one. So each use pays for at most one step of a search.
   */
  longestUnused(): Session | undefined {
    const end = this.#end;
    for (let first = end.later; first !== end; first = end.later) {
      if (first.session?.isInUse === false) return first.session;
      first.leave();
    }
    return undefined;
  }
}
