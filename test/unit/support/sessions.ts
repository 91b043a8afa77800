import { EventLog } from "../../../src/mux/event-log.ts";
import { type Principal, Session, type SessionLane } from "../../../src/mux/session.ts";
import { SessionStreams } from "../../../src/mux/session-streams.ts";
import { UNGUARDED } from "./defects.ts";

/** A lane that takes everything, and keeps whose sessions have ended. */
class IdleLane implements SessionLane {
  readonly ended: Session[] = [];

  request(): void {
    // Nothing is carried.
  }

  respond(): void {
    // Nobody is answered.
  }

  refuse(): void {
    // Nobody is answered.
  }

  notify(): undefined {
    return undefined;
  }

  answer(): undefined {
    return undefined;
  }

  endSession(session: Session): void {
    this.ended.push(session);
  }
}

export function newLog(): EventLog {
  return new EventLog({ replayMaxBytes: 100_000, replayMaxAgeMs: 100_000, replayMaxEvents: 1000 }, Date.now, UNGUARDED);
}

/** A session with streams of its own; `log` where it matters what is kept. */
export function newSession(lane: SessionLane = new IdleLane(), protocolVersion = "2025-11-25", log = newLog(), owner?: Principal): Session {
  return new Session(protocolVersion, lane, new SessionStreams(log), 0, owner);
}
