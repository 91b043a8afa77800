import { type ValueKind, wholeNumber } from "./value-kinds.ts";

export const VARIABLE_PREFIX = "CLAW_MCP_STDIO_";

/** The most used groups first. */
export const OPTION_GROUPS = ["MCP server", "HTTP", "Sessions", "Tool policy", "Supervision", "Limits", "Logs"] as const;

/** An option of the sidecar, set by a flag or an environment variable. */
export interface Option<Setting> {
  readonly group: (typeof OPTION_GROUPS)[number];
  /** The flag without its dashes; undefined if the command line has another place for the value. */
  readonly flag: string | undefined;
  readonly variable: `${typeof VARIABLE_PREFIX}${string}`;
  /** The word for the value in the help. */
  readonly placeholder: string;
  readonly description: string;
  /** The default as a user would write it; undefined without a default. */
  readonly defaultText: string | undefined;
  /** The parsed `defaultText`. */
  readonly defaultValue: Setting;
  readonly kind: ValueKind<Setting>;
  readonly isSecret: boolean;
  /** True if the flag without a value means `on`. */
  readonly isSwitch: boolean;
}

/** The longest delay that setTimeout accepts. */
export const MAX_MS = 2_147_483_647;
/** A little less than the longest string of V8. */
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

/** Creates an option. Without a default, its value is `undefined` unless it is set. */
export function option<Value>(input: OptionInput<Value> & { readonly defaultText: string }): Option<Value>;
export function option<Value>(input: OptionInput<Value>): Option<Value | undefined>;
export function option<Value>(input: OptionInput<Value>): Option<Value | undefined> {
  const { name, defaultText, kind, isSecret = false, isSwitch = false, ...rest } = input;
  const defaultValue = defaultText === undefined ? undefined : kind.parse(defaultText);
  if (defaultText !== undefined && defaultValue === undefined) throw new Error(`the default of ${name} is not valid`);
  return { ...rest, variable: `${VARIABLE_PREFIX}${name}`, defaultText, defaultValue, kind, isSecret, isSwitch };
}

/** Creates an option that is a whole number of at least 1. The ending of its name, `_MS` or `_BYTES`, is the unit. */
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

/** Returns the flag as it is written on a command line, or undefined without a flag. */
export function flagUsage({ flag, placeholder, isSwitch }: Option<unknown>): string | undefined {
  if (flag === undefined) return undefined;
  return isSwitch ? `--${flag}[=${placeholder}]` : `--${flag} ${placeholder}`;
}
