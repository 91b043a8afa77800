import { type ValueKind, wholeNumber } from "./value-kinds.ts";

export const VARIABLE_PREFIX = "CLAW_MCP_STDIO_";

export const OPTION_GROUPS = ["MCP server", "HTTP", "Sessions", "Supervision", "Tool policy", "Limits", "Logs"] as const;

/** One option: a flag, an environment variable, and what they may say. */
export interface Option<Setting> {
  readonly group: (typeof OPTION_GROUPS)[number];
  /** Without the dashes; undefined where the command line has another way to say it. */
  readonly flag: string | undefined;
  readonly variable: `${typeof VARIABLE_PREFIX}${string}`;
  /** Stands for the value in the help. */
  readonly placeholder: string;
  readonly description: string;
  /** As a person would write it; undefined where there is none. */
  readonly defaultText: string | undefined;
  /** The meaning of `defaultText`. */
  readonly defaultValue: Setting;
  readonly kind: ValueKind<Setting>;
  readonly isSecret: boolean;
  /** The flag alone means `on`. */
  readonly isSwitch: boolean;
}

/** setTimeout takes no more. */
export const MAX_MS = 2_147_483_647;
/** V8 holds no longer string. */
export const MAX_LENGTH_BYTES = 512 * 1024 * 1024 - 1024;
export const MIB = 1024 * 1024;

interface OptionInput<Value> {
  readonly group: Option<unknown>["group"];
  readonly flag: string | undefined;
  readonly name: string;
  readonly placeholder: string;
  readonly description: string;
  readonly defaultText?: string;
  readonly kind: ValueKind<Value>;
  readonly isSecret?: boolean;
  readonly isSwitch?: boolean;
}

/** An option without a default is `undefined` unless it is set. */
export function option<Value>(input: OptionInput<Value> & { readonly defaultText: string }): Option<Value>;
export function option<Value>(input: OptionInput<Value>): Option<Value | undefined>;
export function option<Value>(input: OptionInput<Value>): Option<Value | undefined> {
  const { name, defaultText, kind, isSecret = false, isSwitch = false, ...rest } = input;
  const defaultValue = defaultText === undefined ? undefined : kind.parse(defaultText);
  if (defaultText !== undefined && defaultValue === undefined) throw new Error(`the default of ${name} is not valid`);
  return { ...rest, variable: `${VARIABLE_PREFIX}${name}`, defaultText, defaultValue, kind, isSecret, isSwitch };
}

/** A whole number from 1 on; the unit is in the name. */
export function limit(
  group: Option<number>["group"],
  name: string,
  defaultValue: number,
  max: number,
  description: string,
): Option<number> {
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
