import { limit, MAX_MS, option } from "./option.ts";
import { anyText, jsonStrings } from "./value-kinds.ts";

export const SERVER_OPTIONS = {
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
    "How long the server may take from its start to its answer to `initialize`.",
  ),
} as const;
