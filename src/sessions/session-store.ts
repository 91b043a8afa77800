import type { Principal, Session } from "./session.ts";

/** The sessions by id. Above the limit, the least recently used session is evicted; one that is in use only if all are. */
export class SessionStore {
  readonly #sessions = new Map<string, Session>();
  readonly #maxSessions: number;

  constructor(maxSessions: number) {
    this.#maxSessions = maxSessions;
  }

  get size(): number {
    return this.#sessions.size;
  }

  add(session: Session): void {
    this.#sessions.set(session.id, session);
    if (this.#sessions.size <= this.#maxSessions) return;
    const unused = this.#longestUnused(session);
    if (unused !== undefined) this.end(unused);
  }

  get(id: string): Session | undefined {
    return this.#sessions.get(id);
  }

  /** Returns the session and marks it as used now. */
  use(id: string, nowMs: number): Session | undefined {
    const session = this.#sessions.get(id);
    session?.touch(nowMs);
    return session;
  }

  /** Ends all sessions of one owner. @returns their number. */
  endAllOf(owner: Principal): number {
    const owned = [...this.#sessions.values()].filter((session) => session.owner === owner);
    for (const session of owned) this.end(session);
    return owned.length;
  }

  /** Scans all sessions. Only an eviction pays for this: keeping them in order would make every request slower. */
  #longestUnused(added: Session): Session | undefined {
    let longest: Session | undefined;
    let longestIdle: Session | undefined;
    for (const each of this.#sessions.values()) {
      if (each === added) continue;
      if (isUnusedLonger(each, longest)) longest = each;
      if (isUnusedLonger(each, longestIdle) && !each.isInUse) longestIdle = each;
    }
    return longestIdle ?? longest;
  }

  /** Ends a session: cancels its requests and closes its streams. Does nothing for one that has ended. */
  end(session: Session): void {
    if (this.#sessions.delete(session.id)) session.end();
  }
}

/** True if `session` has been unused for longer than `other`. */
function isUnusedLonger(session: Session, other: Session | undefined): boolean {
  return other === undefined || session.lastUsedAtMs < other.lastUsedAtMs;
}
