import { shorten } from "../json/text.ts";
import type { Log } from "../observability/log.ts";
import { isSent } from "./call.ts";
import type { CallTable } from "./call-table.ts";
import { sessionOutdated } from "./failures.ts";
import { changingLists, findMissing, type Offer } from "./offer.ts";
import type { Session } from "./session.ts";

export interface SessionOffersOptions {
  readonly calls: CallTable;
  readonly log: Log;
  readonly endSession: (session: Session) => void;
}

/** What each session of a lane was told that its server offers, and what follows when the next server offers something else. */
export class SessionOffers {
  readonly #calls: CallTable;
  readonly #log: Log;
  readonly #endSession: (session: Session) => void;
  readonly #bySession = new Map<Session, Offer>();
  #current: Offer | undefined;

  constructor({ calls, log, endSession }: SessionOffersOptions) {
    this.#calls = calls;
    this.#log = log;
    this.#endSession = endSession;
  }

  /** The session was answered with what the server offers now. */
  add(session: Session): void {
    if (this.#current !== undefined) this.#bySession.set(session, this.#current);
  }

  delete(session: Session): void {
    this.#bySession.delete(session);
  }

  /**
   * A server is ready: ends the sessions that cannot go on with it.
   *
   * @returns the lists that may have changed for the others: none with the first server.
   */
  change(now: Offer, generation: number): string[] {
    const isFirst = this.#current === undefined;
    this.#current = now;
    const sessions = new Set<Session>();
    // Thousands of sessions share a few offers.
    const missingOf = new Map<Offer, string | undefined>();
    let reason: string | undefined;
    for (const [session, offer] of this.#bySession) {
      if (!missingOf.has(offer)) missingOf.set(offer, findMissing(offer, now));
      const missing = missingOf.get(offer);
      if (missing === undefined) continue;
      sessions.add(session);
      reason ??= missing;
    }
    if (reason !== undefined) this.#end(sessions, shorten(reason), generation);
    return isFirst ? [] : changingLists(now);
  }

  #end(sessions: ReadonlySet<Session>, missing: string, generation: number): void {
    const reason = `the mcp server no longer offers ${missing}`;
    this.#log.warn({ generation, count: sessions.size, reason }, "sessions ended");
    const outdated = this.#calls.values().filter((call) => call.session !== undefined && sessions.has(call.session) && !isSent(call));
    // Answered as any later request of the session: its client opens a new one, and can repeat the request in that.
    this.#calls.giveUpAll(outdated, reason, () => sessionOutdated(missing));
    for (const session of sessions) this.#endSession(session);
  }
}
