import { LOG_LEVELS } from "../observability/log.ts";
import { option } from "./option.ts";
import { oneOf } from "./value-kinds.ts";

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
} as const;
