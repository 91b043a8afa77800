import { limit, MAX_LENGTH_BYTES, MAX_MS, MIB } from "./option.ts";

export const LIMIT_OPTIONS = {
  maxBodyBytes: limit("Limits", "MAX_BODY_BYTES", 4 * MIB, MAX_LENGTH_BYTES, "Largest request body; beyond it 413."),
  maxLineBytes: limit(
    "Limits",
    "MAX_LINE_BYTES",
    64 * MIB,
    MAX_LENGTH_BYTES,
    "Longest message of the server; a longer one is answered with an error and skipped.",
  ),
  maxInFlight: limit("Limits", "MAX_IN_FLIGHT", 1024, 1_000_000, "Requests in flight at one server; more wait their turn."),
  maxSessionRequests: limit(
    "Limits",
    "MAX_SESSION_REQUESTS",
    1024,
    1_000_000,
    "Requests of one session in flight or waiting; beyond it 429.",
  ),
  maxHeldRequests: limit(
    "Limits",
    "MAX_HELD_REQUESTS",
    256,
    1_000_000,
    "What waits for a server that is starting, restarting, or has MAX_IN_FLIGHT requests; the sessions take turns. Beyond it 503.",
  ),
  maxQueuedBytes: limit(
    "Limits",
    "MAX_QUEUED_BYTES",
    64 * MIB,
    MAX_LENGTH_BYTES,
    "What may wait, for its turn or for the server to read it; beyond it 503.",
  ),
  replayMaxBytes: limit(
    "Limits",
    "REPLAY_MAX_BYTES",
    32 * MIB,
    MAX_LENGTH_BYTES,
    "Kept of all event streams together, for clients that come back with `Last-Event-ID`; a single stream may take a quarter.",
  ),
  replayMaxAgeMs: limit("Limits", "REPLAY_MAX_AGE_MS", 300_000, MAX_MS, "How long an event is kept for that."),
  replayMaxEvents: limit("Limits", "REPLAY_MAX_EVENTS", 1000, 1_000_000, "Events kept of a single stream."),
} as const;
