import { limit, MAX_MS, option } from "./option.ts";
import { anyText, jsonStrings } from "./value-kinds.ts";

export const SERVER_OPTIONS = {
  command: option({
    group: "MCP server",
    flag: undefined,
    name: "COMMAND",
    placeholder: "COMMAND",
    description: "Executable of the stdio MCP server, started without a shell. On the command line, the first argument after the options.",
    kind: anyText,
  }),
  args: option({
    group: "MCP server",
    flag: undefined,
    name: "ARGS",
    placeholder: "JSON",
    description: "Arguments of the server, as a JSON array of strings. On the command line, all arguments after the command.",
    defaultText: "[]",
    kind: jsonStrings,
  }),
  cwd: option({
    group: "MCP server",
    flag: "cwd",
    name: "CWD",
    placeholder: "DIR",
    description: "Working directory of the server. Default: that of the sidecar.",
    kind: anyText,
  }),
  readyTimeoutMs: limit(
    "MCP server",
    "READY_TIMEOUT_MS",
    60_000,
    MAX_MS,
    "Time limit from the server's start to its response to `initialize`; a slower server is restarted.",
  ),
} as const;
