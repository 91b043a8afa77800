import type { Call } from "./call.ts";
import type { Session } from "./session.ts";

/** How long a server may still be talking of a request that it has answered. */
const AFTER_ANSWER_MS = 1000;
/** And of one that was given up: it may go on working at it. */
const AFTER_GIVING_UP_MS = 60_000;

/** The sessions that a server may still be talking of, though none of their requests is in flight any more. */
export class RecentOwners {
  readonly #untilMs = new Map<Session, number>();
  /** Of all sessions together that are over; they themselves are not kept. */
  #endedUntilMs = 0;

  note({ session }: Call, isAnswered: boolean, nowMs: number): void {
    if (session === undefined) return;
    const untilMs = nowMs + (isAnswered ? AFTER_ANSWER_MS : AFTER_GIVING_UP_MS);
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
