import type { MemoryHolder } from "../memory/memory-budget.ts";
import type { Session } from "./session.ts";
import type { SessionStore } from "./session-store.ts";

/** The time after which a session without request and stream may be abandoned. A person reads and types meanwhile. */
const ABANDONED_MS = 60_000;
/** The shortest time between two searches of all sessions. */
const SEARCH_MS = 1000;

export interface AbandonedSessionsOptions {
  readonly sessions: SessionStore;
  readonly nowMs: () => number;
  /** Called for each session, before its end. */
  readonly onEnd: () => void;
}

/** The sessions that hold memory, but are not in use. Those of shared servers never end by themselves. */
export class AbandonedSessions {
  readonly #options: AbandonedSessionsOptions;
  #searchedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: AbandonedSessionsOptions) {
    this.#options = options;
  }

  /** Ends sessions until this much memory is free: those of the client with most memory first, and of these the longest unused first. */
  free(bytes: number, holder: MemoryHolder | undefined): void {
    const { sessions, nowMs, onEnd } = this.#options;
    const atMs = nowMs();
    if (atMs - this.#searchedAtMs < SEARCH_MS) return;
    this.#searchedAtMs = atMs;
    const abandoned = [...sessions.values()].filter((each) => (holder === undefined || each.holder === holder) && isAbandoned(each, atMs));
    const byHolder = [...Map.groupBy(abandoned, (each) => each.holder).values()].sort((a, b) => lastingBytes(b) - lastingBytes(a));
    let freeBytes = 0;
    for (const session of byHolder.flatMap((each) => each.sort((a, b) => a.lastUsedAtMs - b.lastUsedAtMs))) {
      if (freeBytes >= bytes) return;
      freeBytes += session.memory.lastingBytes;
      onEnd();
      sessions.end(session);
    }
  }
}

function isAbandoned({ isInUse, memory, lastUsedAtMs }: Session, atMs: number): boolean {
  return memory.lastingBytes > 0 && !isInUse && atMs - lastUsedAtMs >= ABANDONED_MS;
}

function lastingBytes(sessions: readonly Session[]): number {
  return sessions.reduce((sum, { memory }) => sum + memory.lastingBytes, 0);
}
