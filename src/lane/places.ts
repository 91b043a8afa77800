import type { Session } from "../sessions/session.ts";
import type { PooledLane } from "./pooled-lane.ts";

/**
 * The time after its last sign of life in which a client that has sent no request keeps its server. The first request follows the
 * response to `initialize` by a round trip, which takes seconds only on a very busy machine.
 */
const FIRST_REQUEST_MS = 5000;
/** The time after which a client without request and stream may lose its server. A person reads and types meanwhile. */
export const UNUSED_MS = 60_000;

/** Returns the session whose server makes room for a new client: one that was never used, else the one that was unused for longest. */
export function findSessionToEnd(sessions: Iterable<Session>, nowMs: number): Session | undefined {
  let found: Session | undefined;
  for (const session of sessions) {
    if (dueInMs(session, nowMs) <= 0 && (found === undefined || endsBefore(session, found))) found = session;
  }
  return found;
}

/** Returns the shortest time until a session may have to end for a new client. The end of its use is not foreseeable. */
function dueInMs({ isInUse, hasCalled, lastUsedAtMs }: Session, nowMs: number): number {
  if (isInUse) return UNUSED_MS;
  return lastUsedAtMs + (hasCalled ? UNUSED_MS : FIRST_REQUEST_MS) - nowMs;
}

/** Returns the shortest time until one of these lanes may be free for a new client. */
export function placeFreeInMs(lanes: Iterable<Pick<PooledLane, "sessions">>, idleTimeoutMs: number, nowMs: number): number {
  let freeInMs = Math.min(UNUSED_MS, idleTimeoutMs);
  for (const { sessions } of lanes) {
    // The session of a server that starts may remain unused.
    if (sessions.size === 0) freeInMs = Math.min(freeInMs, FIRST_REQUEST_MS);
    for (const session of sessions) {
      const idleInMs = session.isInUse ? idleTimeoutMs : session.lastUsedAtMs + idleTimeoutMs - nowMs;
      freeInMs = Math.min(freeInMs, idleInMs, dueInMs(session, nowMs));
    }
  }
  return freeInMs;
}

function endsBefore(session: Session, other: Session): boolean {
  return session.hasCalled === other.hasCalled ? session.lastUsedAtMs < other.lastUsedAtMs : other.hasCalled;
}
