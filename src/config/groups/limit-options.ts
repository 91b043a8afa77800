import { limit, MAX_LENGTH_BYTES, MAX_MS, MIB, option } from "../option.ts";
import { wholeNumber } from "../value-kinds.ts";

const MIN_BUDGET_BYTES = MIB;
const MAX_BUDGET_BYTES = 2 ** 40;

export const LIMIT_OPTIONS = {
  memoryBudgetBytes: option({
    group: "Limits",
    flag: "memory-budget-bytes",
    name: "MEMORY_BUDGET_BYTES",
    placeholder: "BYTES",
    description:
      "Memory for the messages of clients and servers: arriving bodies, requests queued and in flight, events for replay, unread responses, subscriptions, incomplete lines. When it is used up, new bodies get 503. A single body may have a fifth of it, and a message of the server a quarter. Default: a quarter of the container's memory above 56 MiB, at least 2 MiB and at most 256 MiB.",
    kind: wholeNumber(MAX_BUDGET_BYTES, MIN_BUDGET_BYTES),
  }),
  maxBodyBytes: limit(
    "Limits",
    "MAX_BODY_BYTES",
    4 * MIB,
    MAX_LENGTH_BYTES,
    "Largest request body, at most a fifth of MEMORY_BUDGET_BYTES; a larger one gets 413.",
  ),
  maxLineBytes: limit(
    "Limits",
    "MAX_LINE_BYTES",
    64 * MIB,
    MAX_LENGTH_BYTES,
    "Longest message of the server, at most a quarter of MEMORY_BUDGET_BYTES. A longer one is discarded, and its request fails.",
  ),
  maxConnections: limit(
    "Limits",
    "MAX_CONNECTIONS",
    4096,
    1_000_000,
    "Maximum number of connections with a client's request, for each listen address: one with a valid token, or if none is configured, any but a probe. Above it, a request gets OVERLOADED; if no token is configured, the connection that has been idle for longest is closed first, if there is one.",
  ),
  maxConnectionsWithoutToken: limit(
    "Limits",
    "MAX_CONNECTIONS_WITHOUT_TOKEN",
    512,
    1_000_000,
    "Maximum number of all other connections, for each listen address. One more closes the one of them that has been idle for longest, else the oldest. If no token is configured, they may also use what MAX_CONNECTIONS leaves.",
  ),
  maxInFlight: limit(
    "Limits",
    "MAX_IN_FLIGHT",
    1024,
    1_000_000,
    "Maximum number of requests in flight at one server; further requests are queued. 1 is for a server that can do only one thing at a time, together with ISOLATION=shared.",
  ),
  maxSessionRequests: limit(
    "Limits",
    "MAX_SESSION_REQUESTS",
    1024,
    1_000_000,
    "Maximum number of requests of one session, or of one client without a session, in flight or queued; further requests get 429.",
  ),
  maxHeldRequests: limit(
    "Limits",
    "MAX_HELD_REQUESTS",
    256,
    1_000_000,
    "Maximum number of requests that are held for a server that is starting, restarting, or has MAX_IN_FLIGHT requests; further requests get 503. Sessions take turns.",
  ),
  maxQueuedBytes: limit(
    "Limits",
    "MAX_QUEUED_BYTES",
    64 * MIB,
    MAX_LENGTH_BYTES,
    "Maximum size of all messages that are queued or not yet read by the server; further requests get 503.",
  ),
  replayMaxBytes: limit(
    "Limits",
    "REPLAY_MAX_BYTES",
    32 * MIB,
    MAX_LENGTH_BYTES,
    "Memory of all events kept for clients that reconnect with `Last-Event-ID`, at most a quarter of MEMORY_BUDGET_BYTES. A single stream may use a quarter of it.",
  ),
  replayMaxAgeMs: limit("Limits", "REPLAY_MAX_AGE_MS", 300_000, MAX_MS, "Time for which an event is kept for replay."),
  replayMaxEvents: limit("Limits", "REPLAY_MAX_EVENTS", 1000, 1_000_000, "Maximum number of events kept for a single stream."),
} as const;
