import { CHILD_ERA_MODES } from "../../era/child-era-mode.ts";
import { limit, MAX_MS, option } from "../option.ts";
import { anyText, jsonStrings, oneOf } from "../value-kinds.ts";

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
  childEra: option({
    group: "MCP server",
    flag: "child-era",
    name: "CHILD_ERA",
    placeholder: "ERA",
    description:
      "Protocol of the server for clients of MCP 2026-07-28, which has no sessions. `auto`: the server is asked at the first request of such a client, in a second process, because some servers exit or can never have a session after that question. With ISOLATION=shared there is no second process. `legacy`: the server has sessions, and is not asked. `modern`: the server has none, and gets no `initialize`. Clients of sessions can use it all the same.",
    defaultText: "auto",
    kind: oneOf(CHILD_ERA_MODES),
  }),
  readyTimeoutMs: limit(
    "MCP server",
    "READY_TIMEOUT_MS",
    60_000,
    MAX_MS,
    "Time limit from the server's start to the end of its handshake (`initialize` or `server/discover`). A slower server is restarted, with twice the time, up to eight times READY_TIMEOUT_MS.",
  ),
} as const;
