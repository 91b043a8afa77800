import { LOG_LEVELS, REQUEST_LOG_MODES } from "../../observability/log.ts";
import { option } from "../option.ts";
import { oneOf, onOff } from "../value-kinds.ts";

export const LOG_OPTIONS = {
  logLevel: option({
    group: "Logs",
    flag: "log-level",
    name: "LOG_LEVEL",
    placeholder: "LEVEL",
    description: `Log level, one of ${LOG_LEVELS.join(", ")}. Payloads are never logged.`,
    defaultText: "info",
    kind: oneOf(LOG_LEVELS),
  }),
  requestLog: option({
    group: "Logs",
    flag: "request-log",
    name: "REQUEST_LOG",
    placeholder: "MODE",
    description:
      "Requests of clients in the log, without arguments and results: `off`, `errors` (rejected and failed ones) or `all`. Under a flood, lines are counted instead.",
    defaultText: "errors",
    kind: oneOf(REQUEST_LOG_MODES),
  }),
  metrics: option({
    group: "Logs",
    flag: "metrics",
    name: "METRICS",
    placeholder: "on|off",
    description: "Metrics for Prometheus at `/metrics`, under the same rules as `/status`.",
    defaultText: "on",
    kind: onOff,
    isSwitch: true,
  }),
} as const;
