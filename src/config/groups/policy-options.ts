import { ARGUMENT_CHECK_MODES, DESCRIPTOR_MODES } from "../../policy/check-mode.ts";
import { MAX_LENGTH_BYTES, MAX_MS, option } from "../option.ts";
import { anyText, oneOf, onOff, toolNames, toolNumbers, wholeNumber } from "../value-kinds.ts";

/** A fully truncated result is not shorter than this. */
const MIN_RESULT_BYTES = 1024;
const MAX_PER_MINUTE = 1_000_000;

export const POLICY_OPTIONS = {
  allowTools: option({
    group: "Tool policy",
    flag: "allow-tools",
    name: "ALLOW_TOOLS",
    placeholder: "NAMES",
    description:
      "Tools that clients may list and call, such as `search,read_*`; `*` matches any characters, `?` matches one. All others are hidden: `tools/list` omits them, and calls of them fail like those of unknown tools. Default: all.",
    kind: toolNames,
  }),
  denyTools: option({
    group: "Tool policy",
    flag: "deny-tools",
    name: "DENY_TOOLS",
    placeholder: "NAMES",
    description: "Tools that are hidden from clients, even if ALLOW_TOOLS matches them. Default: none.",
    kind: toolNames,
  }),
  readOnly: option({
    group: "Tool policy",
    flag: "read-only",
    name: "READ_ONLY",
    placeholder: "on|off",
    description:
      "Restriction to read-only tools: `on` hides all tools without the annotation `readOnlyHint` (`readOnly` in pods). The server sets these annotations, and the sidecar does not verify them.",
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
      "Reviewed descriptor (`.claw-describe.json`, written by `discover`) with which the server's tools are compared. This happens at each start of the server, and when the server reports that its tools changed.",
    kind: anyText,
  }),
  descriptorMode: option({
    group: "Tool policy",
    flag: "descriptor-mode",
    name: "DESCRIPTOR_MODE",
    placeholder: "MODE",
    description:
      "Effect of differences from DESCRIPTOR. `enforce` hides each tool whose name, description, input schema or annotations differ; `warn` only logs the differences and shows them in `/status`. Other members of a tool (`title`, `outputSchema`, `icons`, `execution`, `_meta`) are not compared.",
    defaultText: "enforce",
    kind: oneOf(DESCRIPTOR_MODES),
  }),
  argumentCheck: option({
    group: "Tool policy",
    flag: "argument-check",
    name: "ARGUMENT_CHECK",
    placeholder: "MODE",
    description:
      "Check of a call's arguments against the tool's `inputSchema` before it is sent. `enforce` answers an invalid call with a result that names each wrong field (`isError`); `warn` logs and forwards it. If a schema cannot be used, this is logged once, and calls of its tool are forwarded.",
    defaultText: "off",
    kind: oneOf(ARGUMENT_CHECK_MODES),
  }),
  toolTimeoutsMs: option({
    group: "Tool policy",
    flag: "tool-timeouts-ms",
    name: "TOOL_TIMEOUTS_MS",
    placeholder: "NAME=MS,…",
    description:
      "Time limits of calls by tool, instead of REQUEST_TIMEOUT_MS, such as `search=5000,export_*=300000`. The first matching name applies. Default: none.",
    kind: toolNumbers(MAX_MS),
  }),
  toolConcurrency: option({
    group: "Tool policy",
    flag: "tool-concurrency",
    name: "TOOL_CONCURRENCY",
    placeholder: "NAME=N,…",
    description:
      "Maximum number of calls of a tool in flight at one server process, such as `browser_*=1`; further calls are queued. The first matching name applies. Default: none.",
    kind: toolNumbers(1_000_000),
  }),
  toolCallsPerMinute: option({
    group: "Tool policy",
    flag: "tool-calls-per-minute",
    name: "TOOL_CALLS_PER_MINUTE",
    placeholder: "NAME=N,…",
    description:
      "Maximum number of calls of a tool per minute for all clients together, such as `search=60`; further calls get 429. Bursts up to this number are allowed. The first matching name applies. Default: none.",
    kind: toolNumbers(MAX_PER_MINUTE),
  }),
  sessionCallsPerMinute: option({
    group: "Tool policy",
    flag: "session-calls-per-minute",
    name: "SESSION_CALLS_PER_MINUTE",
    placeholder: "N",
    description:
      "Maximum number of tool calls of one session, or of one client without a session, per minute; further calls get 429. Bursts up to this number are allowed. Default: no limit.",
    kind: wholeNumber(MAX_PER_MINUTE),
  }),
  maxResultBytes: option({
    group: "Tool policy",
    flag: "max-result-bytes",
    name: "MAX_RESULT_BYTES",
    placeholder: "BYTES",
    description:
      "Largest response to a tool call, progress included. `cllama` reads up to 16384 bytes. In a longer result, text is truncated, images and similar content are replaced by a note, and `_meta` contains `truncated`. With this limit, `tools/list` omits `outputSchema`. Default: no limit.",
    kind: wholeNumber(MAX_LENGTH_BYTES, MIN_RESULT_BYTES),
  }),
} as const;
