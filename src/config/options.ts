import { LOG_LEVELS, REQUEST_LOG_MODES } from "../observe/log.ts";
import { ROUTES } from "../routes.ts";
import { MAX_TIMER_MS } from "../timers.ts";
import {
  anyText,
  bearerToken,
  bytes,
  count,
  endpointPath,
  hosts,
  jsonStrings,
  keys,
  listenAddress,
  listenHost,
  MAX_LENGTH_BYTES,
  MIB,
  milliseconds,
  named,
  oneOf,
  onOff,
  onOffWord,
  option,
  type Option,
  origins,
  port,
  serverName,
  toolNames,
  toolNumbers,
} from "./option.ts";
import { MIN_KEY_LENGTH } from "./secret-file.ts";

/** The sidecar waits for twice as long, at most 10 s more, and Node's timers have a limit. */
const MAX_IDLE_MS = MAX_TIMER_MS - 10_000;

/** A fully truncated result is not shorter than this. */
const MIN_RESULT_BYTES = 1024;

/** The options by their groups, in the order of the documents: the most used groups first. */
export const OPTION_GROUPS = {
  "MCP server": named({
    command: option(
      anyText("COMMAND"),
      "Executable of the stdio MCP server, started without a shell. On the command line, the first argument after the options.",
    ),
    args: option(jsonStrings, "Arguments of the server, as a JSON array of strings. On the command line, all after the command.", "[]"),
    cwd: option(anyText("DIR"), "Working directory of the server. Default: that of the sidecar."),
    childEra: option(
      oneOf(["auto", "legacy", "modern"], "ERA"),
      "Protocol of the server for clients of MCP 2026-07-28. `auto`: a second process is asked at the first such request. `legacy`: the server has sessions. `modern`: it has none, and gets no `initialize`.",
      "auto",
    ),
    readyTimeoutMs: option(
      milliseconds(),
      "Time limit from the server's start to the end of its handshake. A slower server is restarted with twice the time, at most eight times this.",
      60_000,
    ),
  }),
  HTTP: named({
    addr: option(listenAddress, "Listen address, instead of HOST and PORT. Without a host, all interfaces; port 0 selects a free one."),
    host: option(listenHost, "Host to listen on, or `*` for all interfaces. The image sets `*`.", "127.0.0.1"),
    port: option(port, "Listen port, `8080` or `:8080`.", 8080),
    adminAddr: option(
      listenAddress,
      "Listen address for `/status`, `/metrics` and the page, which the other address then lacks. Default: the address of the endpoint.",
    ),
    page: option(onOff, "Web page at `/`. Default: `on` if only this machine can reach it."),
    path: option(endpointPath, "Path of the MCP endpoint.", ROUTES.endpoint.path),
    authToken: option(
      bearerToken,
      "Bearer token that clients must send as `Authorization: Bearer TOKEN`. Prefer the variable: flags appear in the process list.",
    ),
    authTokenFile: option(
      anyText("FILE"),
      "File of valid tokens, one per line, each of at least 16 characters; lines that begin with # are ignored. Changes take effect without a restart. Not together with AUTH_TOKEN.",
    ),
    requireAuth: option(onOff, "Mandatory authentication: without AUTH_TOKEN or AUTH_TOKEN_FILE, the sidecar does not start.", "off"),
    allowedOrigins: option(
      origins,
      "Origins of web pages that may send requests, such as `https://app.example,http://localhost:5173`, or `*` for all. Default: those of this machine, on any port.",
    ),
    allowedHosts: option(
      hosts,
      "Hosts that requests may name besides this machine, such as `mcp.example,10.0.0.5:8080`. `*.mcp.example` allows all names below it, `*` all hosts. Default: none if the sidecar listens on loopback only, else all.",
    ),
    legacySse: option(onOffWord, "HTTP+SSE transport of MCP 2024-11-05, at `/sse` and `/messages`; deprecated.", "off"),
    modern: option(onOffWord, "Requests without a session, of MCP 2026-07-28. They are also off with ISOLATION=session.", "on"),
    requestTimeoutMs: option(
      milliseconds(),
      "Time limit of a request, from its arrival to the server's response. Progress and questions renew it, up to ten times this.",
      60_000,
    ),
    streamAfterMs: option(
      milliseconds(),
      "Time after which a pending response becomes an event stream, if the client accepts one.",
      10_000,
    ),
    keepAliveMs: option(milliseconds(), "Interval of comments on open event streams, so that proxies do not close them.", 15_000),
    headersTimeoutMs: option(milliseconds(), "Time limit for a client to send the headers of a request; a slower one gets 408.", 10_000),
    bodyTimeoutMs: option(milliseconds(), "Time limit for a client to send a whole request; a slower one gets 408.", 60_000),
    connectionIdleTimeoutMs: option(
      milliseconds(MAX_IDLE_MS),
      "Time after which a client should close its idle connection. The sidecar does it up to 10 s later. A balancer needs a shorter time.",
      120_000,
    ),
    readerTimeoutMs: option(milliseconds(), "Time for which a client may leave output unread; then its connection is closed.", 30_000),
  }),
  Sessions: named({
    isolation: option(
      oneOf(["auto", "shared", "session"]),
      "Sharing of server processes between clients. `auto`: a client that declares sampling, elicitation or roots has its own, which its sessions share until the server asks; all others share one. `shared`: all share one. `session`: each session has its own.",
      "auto",
    ),
    maxSessions: option(
      count(10_000_000),
      "Maximum number of sessions. A new one evicts the longest unused one, which its next request opens again, or gets 503.",
      10_000,
    ),
    sessionsPerMinute: option(
      count(),
      "Maximum number of new sessions per minute for all clients together; further ones get 429. Default: no limit.",
    ),
    sessionKey: option(
      keys(MIN_KEY_LENGTH),
      `Keys of session ids, separated by commas, each of at least ${MIN_KEY_LENGTH} characters. Sessions go on at other replicas and after a restart with the same keys. The first one signs. Default: derived from the token if it has ${MIN_KEY_LENGTH} characters, else random.`,
    ),
    sessionKeyFile: option(
      anyText("FILE"),
      "File of such keys, one per line, as `openssl rand -hex 32` makes them. A change needs a restart. Not together with SESSION_KEY.",
    ),
    serverName: option(
      serverName,
      "Name of the MCP server in the signature of session ids, for sidecars of several servers with the same keys or tokens.",
      "mcp",
    ),
    sessionMaxAgeMs: option(
      milliseconds(),
      "Age since `initialize` up to which a session goes on at another replica, after a restart or an eviction: seven days.",
      604_800_000,
    ),
    maxPrivateServers: option(
      count(100_000),
      "Maximum number of server processes that have one client each. Beyond it, one that was unused for 60 s makes room, or a client gets 503.",
      32,
    ),
    sessionIdleTimeoutMs: option(
      milliseconds(),
      "Time after which an unused private server ends. The next request starts another one.",
      600_000,
    ),
    parkTimeoutMs: option(
      milliseconds(),
      "Time in which a client without a session answers the questions of a tool call. Then the call is cancelled.",
      300_000,
    ),
    maxParkedCalls: option(
      count(100_000),
      "Maximum number of calls that wait for the answers of clients without a session, of which one may have a quarter. Beyond it, questions are refused.",
      64,
    ),
  }),
  "Tool policy": named({
    allowTools: option(
      toolNames,
      "Tools that clients may list and call, such as `search,read_*`; `*` matches any characters, `?` matches one. All others are hidden. Default: all.",
    ),
    denyTools: option(toolNames, "Tools that are hidden from clients, even if ALLOW_TOOLS matches them. Default: none."),
    readOnly: option(
      onOff,
      "Restriction to read-only tools: `on` hides all tools without the annotation `readOnlyHint` (`readOnly` in pods), which the server sets and the sidecar does not verify.",
      "off",
    ),
    descriptor: option(
      anyText("FILE"),
      "Reviewed descriptor (`.claw-describe.json`, written by `discover`) with which the server's tools are compared.",
    ),
    descriptorMode: option(
      oneOf(["warn", "enforce"]),
      "Effect of differences from DESCRIPTOR. `enforce` hides each tool that differs; `warn` logs them.",
      "enforce",
    ),
    argumentCheck: option(
      oneOf(["off", "warn", "enforce"]),
      "Check of a call's arguments against the tool's `inputSchema` before it is sent. `enforce` answers an invalid call with a result that names each wrong field; `warn` logs and sends it.",
      "off",
    ),
    toolTimeoutsMs: option(
      toolNumbers(MAX_TIMER_MS, "MS"),
      "Time limits of calls by tool, instead of REQUEST_TIMEOUT_MS, such as `search=5000,export_*=300000`. The first matching name applies.",
    ),
    toolConcurrency: option(
      toolNumbers(),
      "Maximum number of calls of a tool in flight at one server process, such as `browser_*=1`; further calls are queued.",
    ),
    toolCallsPerMinute: option(
      toolNumbers(),
      "Maximum number of calls of a tool per minute for all clients together, such as `search=60`; further calls get 429.",
    ),
    sessionCallsPerMinute: option(
      count(),
      "Maximum number of tool calls per minute of one session, or of one client without a session; further calls get 429.",
    ),
    maxResultBytes: option(
      bytes(MAX_LENGTH_BYTES, MIN_RESULT_BYTES),
      "Largest response to a tool call. A longer one is truncated, with a note and `_meta.truncated`. `tools/list` then omits `outputSchema`. Default: no limit.",
    ),
  }),
  Supervision: named({
    restartBackoffMs: option(milliseconds(), "First pause before a restart. It doubles with each further one, up to RESTART_MAX_MS.", 1000),
    restartMaxMs: option(milliseconds(), "Longest pause before a restart. A server that runs for this long is stable.", 15_000),
    holdTimeoutMs: option(
      milliseconds(),
      "Time for which a request is held while the server is starting, restarting or busy; then it gets 503.",
      20_000,
    ),
    preStopMs: option(
      milliseconds(MAX_TIMER_MS, 0),
      "Time after SIGTERM, SIGINT or SIGHUP for which requests are still served, while `/readyz` is 503, so that a balancer notices.",
      0,
    ),
    drainTimeoutMs: option(milliseconds(), "Time limit for requests in flight to finish at the end of the sidecar.", 5000),
    crashLoopExits: option(
      count(1000),
      "Number of exits within CRASH_LOOP_PERIOD_MS that make a crash loop. Requests are then rejected at once.",
      5,
    ),
    crashLoopPeriodMs: option(milliseconds(), "Period of a crash loop. It is over once the server has been ready for this long.", 60_000),
    keepTrying: option(
      onOff,
      "Restarts of a server that exits before it was ever ready. With `off`, the sidecar ends with its exit code. Default: `on`; on a terminal outside of a container, `off`.",
    ),
    restartLimit: option(
      count(),
      "Maximum number of restarts without a stable run between them; then the sidecar ends with code 1. For a private server, only its sessions end. Default: no limit.",
    ),
    pingIntervalMs: option(
      milliseconds(),
      "Interval of `ping` requests to an idle server. HUNG_TIMEOUTS counts those without a response. Default: no pings.",
    ),
    hungTimeouts: option(
      count(1000),
      "Number of consecutive timeouts, without any message from the server, after which it is pinged. If it then writes nothing for REQUEST_TIMEOUT_MS, it is restarted.",
      3,
    ),
    retry: option(
      oneOf(["off", "protocol-reads", "read-only"]),
      "Requests that are sent once more after an exit of the server. `protocol-reads`: those that only read, such as `tools/list`; `read-only`: also calls of tools with `readOnlyHint`; `off`: none.",
      "protocol-reads",
    ),
  }),
  Limits: named({
    memoryBudgetBytes: option(
      bytes(2 ** 40, MIB),
      "Memory for the messages of clients and servers. When it is used up, new bodies get 503. A body may have a fifth of it, a message of the server a quarter. Default: a quarter of the container's memory above 56 MiB, from 2 to 256 MiB.",
    ),
    maxBodyBytes: option(bytes(), "Largest request body, at most a fifth of MEMORY_BUDGET_BYTES; a larger one gets 413.", 4 * MIB),
    maxLineBytes: option(
      bytes(),
      "Longest message of the server, at most a quarter of MEMORY_BUDGET_BYTES; a longer one is discarded.",
      64 * MIB,
    ),
    maxConnections: option(
      count(),
      "Maximum number of connections with a valid token, or without tokens with any request but a probe, for each listen address. Beyond it, a request gets OVERLOADED; without tokens, the longest idle one is closed first.",
      4096,
    ),
    maxConnectionsWithoutToken: option(
      count(),
      "Maximum number of all other connections, for each listen address. One more closes the longest idle of them, else the oldest.",
      512,
    ),
    maxInFlight: option(count(), "Maximum number of requests in flight at one server; further ones are queued.", 1024),
    maxSessionRequests: option(
      count(),
      "Maximum number of requests of one session, or of one client without a session, in flight or queued; further ones get 429.",
      1024,
    ),
    maxHeldRequests: option(count(), "Maximum number of requests that are held for a server; further ones get 503.", 256),
    maxQueuedBytes: option(
      bytes(),
      "Maximum size of all messages that are queued or not yet read by the server; further requests get 503.",
      64 * MIB,
    ),
    replayMaxBytes: option(
      bytes(),
      "Memory of all events kept for clients that reconnect, at most a quarter of MEMORY_BUDGET_BYTES. A stream may use a quarter of it.",
      32 * MIB,
    ),
    replayMaxAgeMs: option(milliseconds(), "Time for which an event is kept.", 300_000),
    replayMaxEvents: option(count(), "Maximum number of events kept for a single stream.", 1000),
  }),
  Logs: named({
    logLevel: option(oneOf(LOG_LEVELS, "LEVEL"), `Log level, one of ${LOG_LEVELS.join(", ")}. Payloads are never logged.`, "info"),
    requestLog: option(
      oneOf(REQUEST_LOG_MODES),
      "Requests of clients in the log, without arguments and results: `off`, `errors` (rejected and failed ones) or `all`.",
      "errors",
    ),
    metrics: option(onOff, "Metrics for Prometheus at `/metrics`, under the same rules as `/status`.", "on"),
  }),
};

const ALL = {
  ...OPTION_GROUPS["MCP server"],
  ...OPTION_GROUPS.HTTP,
  ...OPTION_GROUPS.Sessions,
  ...OPTION_GROUPS.Supervision,
  ...OPTION_GROUPS["Tool policy"],
  ...OPTION_GROUPS.Limits,
  ...OPTION_GROUPS.Logs,
};

export type OptionKey = keyof typeof ALL;

export type SettingsOf<Table> = { readonly [Key in keyof Table]: Table[Key] extends Option<infer Setting> ? Setting : never };
export type Settings = SettingsOf<typeof ALL>;

/** All options. `docs/CONFIGURATION.md` and `--help` are generated from them. */
export const OPTIONS: { readonly [Key in OptionKey]: Option<Settings[Key]> } = ALL;

export const ALL_OPTIONS: readonly Option<unknown>[] = Object.values(OPTIONS);

export const COMMON_OPTIONS: readonly Option<unknown>[] = [
  OPTIONS.command,
  OPTIONS.args,
  OPTIONS.host,
  OPTIONS.port,
  OPTIONS.page,
  OPTIONS.authToken,
  OPTIONS.authTokenFile,
  OPTIONS.requestTimeoutMs,
  OPTIONS.readyTimeoutMs,
  OPTIONS.isolation,
  OPTIONS.allowTools,
  OPTIONS.readOnly,
  OPTIONS.descriptor,
  OPTIONS.maxResultBytes,
  OPTIONS.logLevel,
];
