import { ARGUMENT_CHECK_MODES, DESCRIPTOR_MODES } from "../check-mode.ts";
import { MAX_LENGTH_BYTES, MAX_MS, option } from "./option.ts";
import { anyText, oneOf, onOff, toolNames, toolNumbers, wholeNumber } from "./value-kinds.ts";

/** A result, cut as far as it can be, is not shorter. */
const MIN_RESULT_BYTES = 1024;
const MAX_PER_MINUTE = 1_000_000;

export const POLICY_OPTIONS = {
  allowTools: option({
    group: "Tool policy",
    flag: "allow-tools",
    name: "ALLOW_TOOLS",
    placeholder: "NAMES",
    description:
      "Only these tools exist for clients, `search,read_*`; `*` stands for any characters, `?` for one. All others are absent from `tools/list`, and calls of them are answered as those of unknown tools. Default: all.",
    kind: toolNames,
  }),
  denyTools: option({
    group: "Tool policy",
    flag: "deny-tools",
    name: "DENY_TOOLS",
    placeholder: "NAMES",
    description: "These tools do not exist for clients, whatever ALLOW_TOOLS says. Default: none.",
    kind: toolNames,
  }),
  readOnly: option({
    group: "Tool policy",
    flag: "read-only",
    name: "READ_ONLY",
    placeholder: "on|off",
    description:
      "`on`: only tools exist that their server annotates as read-only: `readOnlyHint`, or the pod's own `readOnly`. It is the server's word.",
    defaultText: "off",
    kind: onOff,
    isSwitch: true,
  }),
  descriptor: option({
    group: "Tool policy",
    flag: "descriptor",
    name: "DESCRIPTOR",
    placeholder: "FILE",
    description:
      "The reviewed descriptor (`.claw-describe.json`, as `discover` writes it) that the server's tools are compared with, at each of its starts and when it says that they changed.",
    kind: anyText,
  }),
  descriptorMode: option({
    group: "Tool policy",
    flag: "descriptor-mode",
    name: "DESCRIPTOR_MODE",
    placeholder: "MODE",
    description:
      "`enforce`: only tools exist whose name, description, input schema and annotations are those of DESCRIPTOR. `warn`: what differs is logged, and shown in `/status`. Whatever else a tool has (`title`, `outputSchema`, `icons`, `execution`, `_meta`) is in no descriptor, and not compared.",
    defaultText: "enforce",
    kind: oneOf(DESCRIPTOR_MODES),
  }),
  argumentCheck: option({
    group: "Tool policy",
    flag: "argument-check",
    name: "ARGUMENT_CHECK",
    placeholder: "MODE",
    description:
      "Whether arguments are checked against the tool's `inputSchema` before the server sees them. `enforce`: a call that violates it is answered with a result that names each wrong field (`isError`). `warn`: it is logged, and carried. A schema that cannot be used is logged once, and its calls are carried.",
    defaultText: "off",
    kind: oneOf(ARGUMENT_CHECK_MODES),
  }),
  toolTimeoutsMs: option({
    group: "Tool policy",
    flag: "tool-timeouts-ms",
    name: "TOOL_TIMEOUTS_MS",
    placeholder: "NAME=MS,…",
    description:
      "The time of calls by tool, in place of REQUEST_TIMEOUT_MS: `search=5000,export_*=300000`. The first name that matches counts. Default: none.",
    kind: toolNumbers(MAX_MS),
  }),
  toolConcurrency: option({
    group: "Tool policy",
    flag: "tool-concurrency",
    name: "TOOL_CONCURRENCY",
    placeholder: "NAME=N,…",
    description:
      "How many calls of a tool one server process has at a time, `browser_*=1`; more wait their turn, as beyond MAX_IN_FLIGHT. The first name that matches counts. Default: none.",
    kind: toolNumbers(1_000_000),
  }),
  toolCallsPerMinute: option({
    group: "Tool policy",
    flag: "tool-calls-per-minute",
    name: "TOOL_CALLS_PER_MINUTE",
    placeholder: "NAME=N,…",
    description:
      "How many calls of a tool all clients together may make a minute, `search=60`; as many may come at once. Beyond it 429. The first name that matches counts. Default: none.",
    kind: toolNumbers(MAX_PER_MINUTE),
  }),
  sessionCallsPerMinute: option({
    group: "Tool policy",
    flag: "session-calls-per-minute",
    name: "SESSION_CALLS_PER_MINUTE",
    placeholder: "N",
    description: "How many tool calls a session may make a minute; as many may come at once. Beyond it 429. Default: no limit.",
    kind: wholeNumber(MAX_PER_MINUTE),
  }),
  maxResultBytes: option({
    group: "Tool policy",
    flag: "max-result-bytes",
    name: "MAX_RESULT_BYTES",
    placeholder: "BYTES",
    description:
      "Largest body that a tool call is answered with, progress included. Of a longer result, text is cut, images and the like are replaced by a note, and `_meta` says `truncated`; `tools/list` then shows no `outputSchema`. 16384 is what `cllama` reads. Default: no limit.",
    kind: wholeNumber(MAX_LENGTH_BYTES, MIN_RESULT_BYTES),
  }),
} as const;
