import { ISOLATION_MODES } from "../isolation.ts";
import { limit, MAX_MS, option } from "./option.ts";
import { oneOf, wholeNumber } from "./value-kinds.ts";

export const SESSION_OPTIONS = {
  isolation: option({
    group: "Sessions",
    flag: "isolation",
    name: "ISOLATION",
    placeholder: "MODE",
    description:
      "Who shares a server process. `auto`: a client that declares sampling, elicitation or roots gets its own, all others share one. `shared`: all share one. `session`: each has its own.",
    defaultText: "auto",
    kind: oneOf(ISOLATION_MODES),
  }),
  maxSessions: limit(
    "Sessions",
    "MAX_SESSIONS",
    10_000,
    10_000_000,
    "Sessions kept; beyond it, the one ends that was longest not used and has no stream open and no request running.",
  ),
  sessionsPerMinute: option({
    group: "Sessions",
    flag: "sessions-per-minute",
    name: "SESSIONS_PER_MINUTE",
    placeholder: "N",
    description:
      "How many sessions all clients together may open a minute; as many may come at once. Beyond it 429. Default: no limit but MAX_SESSIONS.",
    kind: wholeNumber(1_000_000),
  }),
  maxPrivateServers: limit("Sessions", "MAX_PRIVATE_SERVERS", 32, 100_000, "Server processes of single clients; beyond it 503."),
  sessionIdleTimeoutMs: limit(
    "Sessions",
    "SESSION_IDLE_TIMEOUT_MS",
    600_000,
    MAX_MS,
    "How long a session with a server process of its own may be unused: no request running, no stream open. Then both end.",
  ),
} as const;
