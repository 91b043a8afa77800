import type { Principal, Session } from "./session.ts";

/** Sessions by id, bounded: beyond the limit, the one ends that was longest not used and is not in use. */
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
    const [longestUnused] = this.#sessions.values();
    const unused = this.#sessions.values().find((each) => each !== session && !each.isInUse) ?? longestUnused;
    if (unused !== undefined) this.end(unused);
  }

  get(id: string): Session | undefined {
    return this.#sessions.get(id);
  }

  /** The session, now the most recently used one. */
  use(id: string, nowMs: number): Session | undefined {
    const session = this.#sessions.get(id);
    if (session !== undefined) {
      this.#sessions.delete(id);
      this.#sessions.set(id, session);
      session.lastUsedAtMs = nowMs;
    }
    return session;
  }

  /** Ends all sessions of somebody. @returns how many. */
  endAllOf(owner: Principal): number {
    const owned = [...this.#sessions.values()].filter((session) => session.owner === owner);
    for (const session of owned) this.end(session);
    return owned.length;
  }

  /** Ends a session: what it still had running is cancelled, its streams end. */
  end(session: Session): void {
    if (!this.#sessions.delete(session.id)) return;
    session.lane.endSession(session);
    session.streams.close();
  }
}
