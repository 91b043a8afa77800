import { ISOLATION_MODES } from "../../lane/isolation.ts";
import { limit, MAX_MS, option } from "../option.ts";
import { anyText, keys, oneOf, serverName, wholeNumber } from "../value-kinds.ts";
import { MIN_KEY_LENGTH } from "../secret-file.ts";

export const SESSION_OPTIONS = {
  isolation: option({
    group: "Sessions",
    flag: "isolation",
    name: "ISOLATION",
    placeholder: "MODE",
    description:
      "Sharing of server processes between clients. `auto`: a client that declares sampling, elicitation or roots gets its own process, and all others share one. `shared`: all clients share one, for a server that can run only once. `session`: each session gets its own.",
    defaultText: "auto",
    kind: oneOf(ISOLATION_MODES),
  }),
  maxSessions: limit(
    "Sessions",
    "MAX_SESSIONS",
    10_000,
    10_000_000,
    "Maximum number of sessions. A new one above it evicts the session that was unused for longest; its next request opens it again. One with an open stream or a request in flight is not evicted: if all have one, the new one gets 503. From three quarters of the maximum on, a client with a quarter of it gives up a session of its own instead. A client is a token, or without tokens a network address.",
  ),
  sessionsPerMinute: option({
    group: "Sessions",
    flag: "sessions-per-minute",
    name: "SESSIONS_PER_MINUTE",
    placeholder: "N",
    description:
      "Maximum number of new sessions per minute for all clients together; further ones get 429. Bursts up to this number are allowed. Default: no limit besides MAX_SESSIONS.",
    kind: wholeNumber(1_000_000),
  }),
  sessionKey: option({
    group: "Sessions",
    flag: "session-key",
    name: "SESSION_KEY",
    placeholder: "KEYS",
    description: `Keys of session ids, separated by commas, each of at least ${MIN_KEY_LENGTH} characters. With the same keys, sessions go on at other replicas, and after a restart. The first key signs, and all are accepted. Prefer the file, because flags appear in the process list. Default: derived from the token of the client if it has at least ${MIN_KEY_LENGTH} characters, else random.`,
    kind: keys(MIN_KEY_LENGTH),
    isSecret: true,
  }),
  sessionKeyFile: option({
    group: "Sessions",
    flag: "session-key-file",
    name: "SESSION_KEY_FILE",
    placeholder: "FILE",
    description:
      "File of such keys, one per line; empty lines and lines that begin with # are ignored. `openssl rand -hex 32` makes a key. A change needs a restart. Cannot be combined with SESSION_KEY.",
    kind: anyText,
  }),
  serverName: option({
    group: "Sessions",
    flag: "server-name",
    name: "SERVER_NAME",
    placeholder: "NAME",
    description:
      "Name of the MCP server in the signature of session ids. Sidecars with different servers and the same keys or tokens then reject the sessions of each other.",
    defaultText: "mcp",
    kind: serverName,
  }),
  sessionMaxAgeMs: limit(
    "Sessions",
    "SESSION_MAX_AGE_MS",
    604_800_000,
    MAX_MS,
    "Age since `initialize` up to which a session goes on at another replica, after a restart, or after its eviction; the default is seven days. A session that stays open does not expire.",
  ),
  maxPrivateServers: limit(
    "Sessions",
    "MAX_PRIVATE_SERVERS",
    32,
    100_000,
    "Maximum number of private server processes, each for one client. The same number limits the processes that may ask clients without a session; one client has at most half of them. A further client gets the place of one that has sent no request within 5 s, or was unused for 60 s, else 503.",
  ),
  sessionIdleTimeoutMs: limit(
    "Sessions",
    "SESSION_IDLE_TIMEOUT_MS",
    600_000,
    MAX_MS,
    "Time after which the private server of an unused session ends. The next request starts another one. Unused means no request in flight and no open stream. A process that may ask clients without a session ends after the same time.",
  ),
  parkTimeoutMs: limit(
    "Sessions",
    "PARK_TIMEOUT_MS",
    300_000,
    MAX_MS,
    "Time in which a client without a session answers the questions of a tool call. After it, the server's elicitations are cancelled, its other questions fail, and the call is cancelled.",
  ),
  maxParkedCalls: limit(
    "Sessions",
    "MAX_PARKED_CALLS",
    64,
    100_000,
    "Maximum number of calls that wait for the answers of clients without a session. A client may have a quarter of it. Above it, the server's questions are refused.",
  ),
} as const;
