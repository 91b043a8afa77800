import { RETRY_MODES } from "../../lane/calls/retry-mode.ts";
import { limit, MAX_MS, option } from "../option.ts";
import { oneOf, onOff, wholeNumber } from "../value-kinds.ts";

export const SUPERVISION_OPTIONS = {
  restartBackoffMs: limit(
    "Supervision",
    "RESTART_BACKOFF_MS",
    1000,
    MAX_MS,
    "First pause before a restart. It doubles with each further restart, up to RESTART_MAX_MS.",
  ),
  restartMaxMs: limit(
    "Supervision",
    "RESTART_MAX_MS",
    15_000,
    MAX_MS,
    "Longest pause before a restart. A server that runs for this long is stable, and its next restart waits for RESTART_BACKOFF_MS only.",
  ),
  holdTimeoutMs: limit(
    "Supervision",
    "HOLD_TIMEOUT_MS",
    20_000,
    MAX_MS,
    "Time for which a request is held while the server is starting, restarting or busy (MAX_IN_FLIGHT, TOOL_CONCURRENCY); then it gets 503. For a busy server, this is at most half of REQUEST_TIMEOUT_MS, or of the tool's limit.",
  ),
  preStopMs: option({
    group: "Supervision",
    flag: "pre-stop-ms",
    name: "PRE_STOP_MS",
    placeholder: "MS",
    description:
      "Time after SIGTERM, SIGINT or SIGHUP for which requests are still served, before the drain. `/readyz` is 503 meanwhile, and each response closes its connection, so that a balancer sends its requests to other replicas.",
    defaultText: "0",
    kind: wholeNumber(MAX_MS, 0),
  }),
  drainTimeoutMs: limit(
    "Supervision",
    "DRAIN_TIMEOUT_MS",
    5000,
    MAX_MS,
    "Time limit for requests in flight to finish after SIGTERM, SIGINT or SIGHUP, and after PRE_STOP_MS.",
  ),
  crashLoopExits: limit(
    "Supervision",
    "CRASH_LOOP_EXITS",
    5,
    1000,
    "Number of exits within CRASH_LOOP_PERIOD_MS that make a crash loop. The state is then `failed`, requests are rejected at once, and the server is restarted only every RESTART_MAX_MS.",
  ),
  crashLoopPeriodMs: limit(
    "Supervision",
    "CRASH_LOOP_PERIOD_MS",
    60_000,
    MAX_MS,
    "Period in which CRASH_LOOP_EXITS exits make a crash loop. The crash loop is over once the server has been ready for this long.",
  ),
  keepTrying: option({
    group: "Supervision",
    flag: "keep-trying",
    name: "KEEP_TRYING",
    placeholder: "on|off",
    description:
      "Restarts of a server that exits before it was ever ready. With `off`, the sidecar ends with its exit code. Default: `on`; on a terminal outside of a container, `off`.",
    kind: onOff,
    isSwitch: true,
  }),
  restartLimit: option({
    group: "Supervision",
    flag: "restart-limit",
    name: "RESTART_LIMIT",
    placeholder: "N",
    description:
      "Maximum number of restarts without a stable run between them. If the server exits again, the sidecar ends with code 1. For a private server, only its session ends. Default: no limit.",
    kind: wholeNumber(1_000_000),
  }),
  pingIntervalMs: option({
    group: "Supervision",
    flag: "ping-interval-ms",
    name: "PING_INTERVAL_MS",
    placeholder: "MS",
    description:
      "Interval of `ping` requests to an idle server; `server/discover` if it has no sessions. A ping without a response before the next one is a timeout that HUNG_TIMEOUTS counts. Default: no pings.",
    kind: wholeNumber(MAX_MS),
  }),
  hungTimeouts: limit(
    "Supervision",
    "HUNG_TIMEOUTS",
    3,
    1000,
    "Number of consecutive timeouts of requests or pings, without any message from the server, after which it is pinged. It is restarted if it then writes nothing for REQUEST_TIMEOUT_MS.",
  ),
  retry: option({
    group: "Supervision",
    flag: "retry",
    name: "RETRY",
    placeholder: "MODE",
    description:
      "Requests that are sent once more if the server exits before it responds. `protocol-reads`: those of the protocol that only read, such as `tools/list`; `read-only`: also calls of tools with the annotation `readOnlyHint`; `off`: none.",
    defaultText: "protocol-reads",
    kind: oneOf(RETRY_MODES),
  }),
} as const;
