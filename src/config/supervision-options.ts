import { RETRY_MODES } from "../retry.ts";
import { limit, MAX_MS, option } from "./option.ts";
import { oneOf, wholeNumber } from "./value-kinds.ts";

export const SUPERVISION_OPTIONS = {
  restartBackoffMs: limit(
    "Supervision",
    "RESTART_BACKOFF_MS",
    1000,
    MAX_MS,
    "First pause before a restart; it doubles while restarts follow each other.",
  ),
  restartMaxMs: limit(
    "Supervision",
    "RESTART_MAX_MS",
    15_000,
    MAX_MS,
    "Longest pause before a restart; a run that lasts this long is stable and ends the streak.",
  ),
  holdTimeoutMs: limit(
    "Supervision",
    "HOLD_TIMEOUT_MS",
    20_000,
    MAX_MS,
    "How long a request waits for a server that is starting, restarting or has too much to do, before it is answered 503; in the last case at most half of REQUEST_TIMEOUT_MS.",
  ),
  drainTimeoutMs: limit(
    "Supervision",
    "DRAIN_TIMEOUT_MS",
    5000,
    MAX_MS,
    "How long requests in flight may take to finish after SIGTERM, SIGINT or SIGHUP.",
  ),
  crashLoopExits: limit(
    "Supervision",
    "CRASH_LOOP_EXITS",
    5,
    1000,
    "So many ends of the server within CRASH_LOOP_PERIOD_MS are a crash loop: the state is `failed`, requests are rejected at once, and a restart is tried only every RESTART_MAX_MS.",
  ),
  crashLoopPeriodMs: limit(
    "Supervision",
    "CRASH_LOOP_PERIOD_MS",
    60_000,
    MAX_MS,
    "The period for that; also how long a run must last for its end not to be the crash loop again.",
  ),
  restartLimit: option({
    group: "Supervision",
    flag: "restart-limit",
    name: "RESTART_LIMIT",
    placeholder: "N",
    description:
      "After so many restarts with no stable run between them the sidecar exits with code 1, for whoever runs it to act; a client's own server ends with its session instead. Default: it goes on trying.",
    kind: wholeNumber(1_000_000),
  }),
  pingIntervalMs: option({
    group: "Supervision",
    flag: "ping-interval-ms",
    name: "PING_INTERVAL_MS",
    placeholder: "MS",
    description: "An idle server is sent a `ping` so often, and has until the next one to answer. Default: it is not.",
    kind: wholeNumber(MAX_MS),
  }),
  hungTimeouts: limit(
    "Supervision",
    "HUNG_TIMEOUTS",
    3,
    1000,
    "After so many requests or pings, one after the other, that ran out of time while the server said nothing at all, it is restarted.",
  ),
  retry: option({
    group: "Supervision",
    flag: "retry",
    name: "RETRY",
    placeholder: "WHAT",
    description:
      "What is sent once more when the server ended before it answered. `protocol-reads`: requests of the protocol that only read, such as `tools/list`. `read-only`: also calls of tools that are annotated `readOnlyHint`. `off`: nothing.",
    defaultText: "protocol-reads",
    kind: oneOf(RETRY_MODES),
  }),
} as const;
