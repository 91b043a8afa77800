import { HTTP_OPTIONS } from "./groups/http-options.ts";
import { LIMIT_OPTIONS } from "./groups/limit-options.ts";
import { LOG_OPTIONS } from "./groups/log-options.ts";
import type { Option } from "./option.ts";
import { POLICY_OPTIONS } from "./groups/policy-options.ts";
import { SERVER_OPTIONS } from "./groups/server-options.ts";
import { SESSION_OPTIONS } from "./groups/session-options.ts";
import { SUPERVISION_OPTIONS } from "./groups/supervision-options.ts";

const ALL = {
  ...SERVER_OPTIONS,
  ...HTTP_OPTIONS,
  ...SESSION_OPTIONS,
  ...SUPERVISION_OPTIONS,
  ...POLICY_OPTIONS,
  ...LIMIT_OPTIONS,
  ...LOG_OPTIONS,
} as const;

export type OptionKey = keyof typeof ALL;

/** The value of each option, set or default. */
export type Settings = { readonly [Key in OptionKey]: (typeof ALL)[Key] extends Option<infer Setting> ? Setting : never };

/** All options. `docs/CONFIGURATION.md` and `--help` are generated from them, in this order within each group. */
export const OPTIONS: { readonly [Key in OptionKey]: Option<Settings[Key]> } = ALL;

export const ALL_OPTIONS: readonly Option<unknown>[] = Object.values(OPTIONS);

/** The most used options, for README.md and the short help. */
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

/** Reads each option in order. TypeScript cannot type a loop over keys, so only this function asserts the types. */
export function collectSettings(read: <Key extends OptionKey>(key: Key) => Settings[Key]): Settings {
  const keys = Object.keys(OPTIONS) as OptionKey[];
  return Object.fromEntries(keys.map((key) => [key, read(key)])) as Settings;
}
