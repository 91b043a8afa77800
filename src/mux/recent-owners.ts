import type { Call } from "./call.ts";
import type { Session } from "./session.ts";

/** How long a server may still be talking of a request that it has answered. */
const AFTER_ANSWER_MS = 1000;
/** And of one that was given up: it may go on working at it, though it was told not to. */
const AFTER_GIVING_UP_MS = 5000;

/** The sessions that a server may still be talking of, though the requests meant are not in flight any more. */
class Owners {
  readonly #untilMs = new Map<Session, number>();
  /** Of all sessions together that are over; they themselves are not kept. */
  #endedUntilMs = 0;

  note(session: Session, untilMs: number): void {
    this.#untilMs.set(session, Math.max(untilMs, this.#untilMs.get(session) ?? 0));
  }

  /** The sessions of this moment, undefined for those that are over; the others are forgotten. */
  *current(nowMs: number): Generator<Session | undefined> {
    if (this.#endedUntilMs > nowMs) yield undefined;
    for (const [session, untilMs] of this.#untilMs) {
      if (untilMs > nowMs) yield session;
      else this.#untilMs.delete(session);
    }
  }

  /** The session is over. What the server still says of it is nobody's, and above all not another session's. */
  end(session: Session): void {
    this.#endedUntilMs = Math.max(this.#endedUntilMs, this.#untilMs.get(session) ?? 0);
    this.#untilMs.delete(session);
  }

  clear(): void {
    this.#untilMs.clear();
    this.#endedUntilMs = 0;
  }
}

/** Whose requests have ended a moment ago. */
export class RecentOwners {
  readonly #answered = new Owners();
  readonly #givenUp = new Owners();

  note({ session }: Call, isAnswered: boolean, nowMs: number): void {
    if (session === undefined) return;
    if (isAnswered) this.#answered.note(session, nowMs + AFTER_ANSWER_MS);
    else this.#givenUp.note(session, nowMs + AFTER_GIVING_UP_MS);
  }

  /** Whose requests the server may still be working at. */
  givenUp(nowMs: number): Generator<Session | undefined> {
    return this.#givenUp.current(nowMs);
  }

  /** Whose requests the server has done with. */
  answered(nowMs: number): Generator<Session | undefined> {
    return this.#answered.current(nowMs);
  }

  end(session: Session): void {
    this.#answered.end(session);
    this.#givenUp.end(session);
  }

  clear(): void {
    this.#answered.clear();
    this.#givenUp.clear();
  }
}
