import type { Option } from "./option.ts";
import { HTTP_OPTIONS } from "./http-options.ts";
import { LIMIT_OPTIONS } from "./limit-options.ts";
import { LOG_OPTIONS } from "./log-options.ts";
import { POLICY_OPTIONS } from "./policy-options.ts";
import { SERVER_OPTIONS } from "./server-options.ts";
import { SESSION_OPTIONS } from "./session-options.ts";
import { SUPERVISION_OPTIONS } from "./supervision-options.ts";

/** All options, in the order in which they are shown. `docs/CONFIGURATION.md` and `--help` are made of this. */
export const OPTIONS = {
  ...SERVER_OPTIONS,
  ...HTTP_OPTIONS,
  ...SESSION_OPTIONS,
  ...SUPERVISION_OPTIONS,
  ...POLICY_OPTIONS,
  ...LIMIT_OPTIONS,
  ...LOG_OPTIONS,
} as const;

export type OptionKey = keyof typeof OPTIONS;
export type OptionValue<Key extends OptionKey> = (typeof OPTIONS)[Key] extends Option<infer Value> ? Value : never;
