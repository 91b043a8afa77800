import { type ValueKind, wholeNumber } from "./value-kinds.ts";

export const VARIABLE_PREFIX = "CLAW_MCP_STDIO_";

export const OPTION_GROUPS = ["MCP server", "HTTP", "Sessions", "Supervision", "Tool policy", "Limits", "Logs"] as const;

/** One option: a flag, an environment variable, and what they may say. */
export interface Option<Value> {
  readonly group: (typeof OPTION_GROUPS)[number];
  /** Without the dashes; undefined where the command line has another way to say it. */
  readonly flag: string | undefined;
  readonly variable: `${typeof VARIABLE_PREFIX}${string}`;
  /** Stands for the value in the help. */
  readonly placeholder: string;
  readonly description: string;
  /** As a person would write it; undefined where there is none. */
  readonly defaultText: string | undefined;
  readonly kind: ValueKind<Value>;
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
  readonly group: Option<Value>["group"];
  readonly flag: string | undefined;
  readonly name: string;
  readonly placeholder: string;
  readonly description: string;
  readonly defaultText?: string;
  readonly kind: ValueKind<Value>;
  readonly isSecret?: boolean;
  readonly isSwitch?: boolean;
}

export function option<Value>({ name, defaultText, isSecret = false, isSwitch = false, ...rest }: OptionInput<Value>): Option<Value> {
  return { ...rest, variable: `${VARIABLE_PREFIX}${name}`, defaultText, isSecret, isSwitch };
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
