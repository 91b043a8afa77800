import type { Principal, Session } from "./session.ts";

/** Sessions by id, bounded: beyond the limit, the longest unused one ends; one that is in use only if all are. */
export class SessionStore {
  readonly #sessions = new Map<string, Session>();
  readonly #maxSessions: number;

  constructor(maxSessions: number) {
    this.#maxSessions = maxSessions;
  }

  get size(): number {
    return this.#sessions.size;
  }

  values(): MapIterator<Session> {
    return this.#sessions.values();
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

  /** The session, which is used now. */
  use(id: string, nowMs: number): Session | undefined {
    const session = this.#sessions.get(id);
    if (session !== undefined) session.lastUsedAtMs = nowMs;
    return session;
  }

  /** Ends all sessions of somebody. @returns how many. */
  endAllOf(owner: Principal): number {
    const owned = [...this.#sessions.values()].filter((session) => session.owner === owner);
    for (const session of owned) this.end(session);
    return owned.length;
  }

  /** Looked for only when one has to go: to keep them in order would cost each request more than all of its lookups. */
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

  /** Ends a session: what it still had running is cancelled, its streams end. */
  end(session: Session): void {
    if (!this.#sessions.delete(session.id)) return;
    session.lane.endSession(session);
    session.streams.close();
  }
}

/** True if `session` has been unused for longer than `other`. */
function isUnusedLonger(session: Session, other: Session | undefined): boolean {
  return other === undefined || session.lastUsedAtMs < other.lastUsedAtMs;
}
