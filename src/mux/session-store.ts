import { randomUUID } from "node:crypto";

/** A client's session in the shared lane: it costs an entry in a table and nothing else, so it has no idle timeout. */
export interface Session {
  readonly id: string;
  /** The revision that `initialize` answered. */
  readonly protocolVersion: string;
}

/** Sessions by id, bounded: beyond the limit, the one that was longest not used ends. Ids are 122 random bits, never a client's choice. */
export class SessionStore {
  readonly #sessions = new Map<string, Session>();
  readonly #maxSessions: number;

  constructor(maxSessions: number) {
    this.#maxSessions = maxSessions;
  }

  get size(): number {
    return this.#sessions.size;
  }

  create(protocolVersion: string): Session {
    const session = { id: randomUUID(), protocolVersion };
    this.#sessions.set(session.id, session);
    if (this.#sessions.size > this.#maxSessions) {
      const [oldest] = this.#sessions.keys();
      if (oldest !== undefined) this.#sessions.delete(oldest);
    }
    return session;
  }

  /** The session, now the most recently used one. */
  use(id: string): Session | undefined {
    const session = this.#sessions.get(id);
    if (session !== undefined) {
      this.#sessions.delete(id);
      this.#sessions.set(id, session);
    }
    return session;
  }

  end(id: string): boolean {
    return this.#sessions.delete(id);
  }
}
