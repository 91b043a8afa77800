import { LOG_LEVELS } from "../observability/log.ts";
import { anyText, bearerToken, endpointPath, jsonStrings, listenAddress, oneOf, port, type ValueKind, wholeNumber } from "./value-kinds.ts";

export const VARIABLE_PREFIX = "CLAW_MCP_STDIO_";

export const OPTION_GROUPS = ["MCP server", "HTTP", "Supervision", "Limits", "Logs"] as const;

/** One option: a flag, an environment variable, and what they may say. */
export interface Option<Value> {
  readonly group: (typeof OPTION_GROUPS)[number];
  /** Without the dashes; undefined where the command line has another way to say it. */
  readonly flag: string | undefined;
  readonly variable: `${typeof VARIABLE_PREFIX}${string}`;
  /** Stands for the value in the help. */
  readonly placeholder: string;
  readonly description: string;
  /** As a person would write it; undefined where there is none. */
  readonly defaultText: string | undefined;
  readonly kind: ValueKind<Value>;
  readonly isSecret: boolean;
}

/** setTimeout takes no more. */
const MAX_MS = 2_147_483_647;
/** V8 holds no longer string. */
const MAX_LENGTH_BYTES = 512 * 1024 * 1024 - 1024;
const MIB = 1024 * 1024;

interface OptionInput<Value> {
  readonly group: Option<Value>["group"];
  readonly flag: string | undefined;
  readonly name: string;
  readonly placeholder: string;
  readonly description: string;
  readonly defaultText?: string;
  readonly kind: ValueKind<Value>;
  readonly isSecret?: boolean;
}

function option<Value>({ name, defaultText, isSecret, ...rest }: OptionInput<Value>): Option<Value> {
  return { ...rest, variable: `${VARIABLE_PREFIX}${name}`, defaultText, isSecret: isSecret ?? false };
}

function limit(group: Option<number>["group"], name: string, defaultValue: number, max: number, description: string): Option<number> {
  return option({
    group,
    flag: name.toLowerCase().replaceAll("_", "-"),
    name,
    placeholder: name.endsWith("_MS") ? "MS" : name.endsWith("_BYTES") ? "BYTES" : "N",
    description,
    defaultText: String(defaultValue),
    kind: wholeNumber(max),
  });
}

/** All options, in the order in which they are shown. `docs/CONFIGURATION.md` and `--help` are made of this. */
export const OPTIONS = {
  command: option({
    group: "MCP server",
    flag: undefined,
    name: "COMMAND",
    placeholder: "COMMAND",
    description: "Executable of the stdio MCP server. On the command line: the first argument behind the options. No shell interprets it.",
    kind: anyText,
  }),
  args: option({
    group: "MCP server",
    flag: undefined,
    name: "ARGS",
    placeholder: "JSON",
    description: "Its arguments, as a JSON array of strings. On the command line: all that follows the command.",
    defaultText: "[]",
    kind: jsonStrings,
  }),
  cwd: option({
    group: "MCP server",
    flag: "cwd",
    name: "CWD",
    placeholder: "DIR",
    description: "Its working directory. Default: the sidecar's own.",
    kind: anyText,
  }),
  readyTimeoutMs: limit(
    "MCP server",
    "READY_TIMEOUT_MS",
    60_000,
    MAX_MS,
    "How long it may take from its start to its answer to `initialize`.",
  ),
  addr: option({
    group: "HTTP",
    flag: "addr",
    name: "ADDR",
    placeholder: "HOST:PORT",
    description: "Listen address; wins over PORT. Without a host: all interfaces. Port 0: any free port, named in the log.",
    defaultText: ":8080",
    kind: listenAddress,
  }),
  port: option({
    group: "HTTP",
    flag: "port",
    name: "PORT",
    placeholder: "PORT",
    description: "Listen port, `8080` or `:8080`.",
    defaultText: "8080",
    kind: port,
  }),
  path: option({
    group: "HTTP",
    flag: "path",
    name: "PATH",
    placeholder: "PATH",
    description: "Path of the MCP endpoint.",
    defaultText: "/mcp",
    kind: endpointPath,
  }),
  authToken: option({
    group: "HTTP",
    flag: "auth-token",
    name: "AUTH_TOKEN",
    placeholder: "TOKEN",
    description:
      "Every request to the endpoint needs `Authorization: Bearer TOKEN`. Default: open. Prefer the variable: flags show in the process list.",
    kind: bearerToken,
    isSecret: true,
  }),
  requestTimeoutMs: limit("HTTP", "REQUEST_TIMEOUT_MS", 60_000, MAX_MS, "One request's time, from its arrival to the server's answer."),
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
    "How long a request waits for a server that is starting or restarting, before it is answered 503.",
  ),
  drainTimeoutMs: limit(
    "Supervision",
    "DRAIN_TIMEOUT_MS",
    5000,
    MAX_MS,
    "How long requests in flight may take to finish after SIGTERM or SIGINT.",
  ),
  maxBodyBytes: limit("Limits", "MAX_BODY_BYTES", 16 * MIB, MAX_LENGTH_BYTES, "Largest request body; beyond it 413."),
  maxLineBytes: limit(
    "Limits",
    "MAX_LINE_BYTES",
    64 * MIB,
    MAX_LENGTH_BYTES,
    "Longest message of the server, in UTF-16 units; a longer one is answered with an error and skipped.",
  ),
  maxSessions: limit("Limits", "MAX_SESSIONS", 10_000, 10_000_000, "Sessions kept; beyond it, the one that was longest not used ends."),
  maxInFlight: limit("Limits", "MAX_IN_FLIGHT", 1024, 1_000_000, "Requests in flight; beyond it 503."),
  maxHeldRequests: limit(
    "Limits",
    "MAX_HELD_REQUESTS",
    256,
    1_000_000,
    "Requests that wait for a server that is starting or restarting; beyond it 503.",
  ),
  maxQueuedBytes: limit(
    "Limits",
    "MAX_QUEUED_BYTES",
    64 * MIB,
    MAX_LENGTH_BYTES,
    "What may wait for the server to read it, in UTF-16 units; beyond it 503.",
  ),
  logLevel: option({
    group: "Logs",
    flag: "log-level",
    name: "LOG_LEVEL",
    placeholder: "LEVEL",
    description: `One of ${LOG_LEVELS.join(", ")}. Payloads are never logged.`,
    defaultText: "info",
    kind: oneOf(LOG_LEVELS),
  }),
} as const;

export type OptionKey = keyof typeof OPTIONS;
export type OptionValue<Key extends OptionKey> = (typeof OPTIONS)[Key] extends Option<infer Value> ? Value : never;
