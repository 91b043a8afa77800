import { posix } from "node:path";
import { isIPv6 } from "node:net";
import { type ListenAddress, parseAuthority, parseOrigin } from "./authority.ts";
import { JsonScanner, Shape } from "../json/read.ts";
import { RESERVED_PATHS } from "../routes.ts";
import { MAX_TIMER_MS } from "../timers.ts";

export interface ValueKind<Value> {
  readonly placeholder: string;
  /** After "expected". */
  readonly expected: string;
  readonly isSecret?: true;
  /** A flag without a value means `on`. */
  readonly isSwitch?: true;
  /** @returns undefined if the text is not valid. */
  parse(text: string): Value | undefined;
  /** The text is not quoted: it may contain secrets. */
  explain?(text: string): string;
}

/** The first pattern that matches counts. */
export interface ToolNumber {
  readonly pattern: string;
  readonly value: number;
}

const NO_MEMBERS = new Shape({});

/** @param source the flag or variable. @param shown undefined if the value may contain a secret. */
export function problemText(source: string, shown: string | undefined, expected: string, reason?: string): string {
  const found = shown === undefined ? "is not valid (value not shown)" : `is ${shown}`;
  return `${source} ${found}${reason === undefined ? "" : `: ${reason}`}; expected ${expected}`;
}

export function describeInvalid(source: string, text: string, kind: ValueKind<unknown>): string {
  const { expected, isSecret } = kind;
  if (text === "") return `${source} has no value; expected ${expected}`;
  const reason = kind.explain?.(text);
  // A text with @ may be a URL with a password.
  const isShown = reason === undefined && isSecret === undefined && !text.includes("@");
  return problemText(source, isShown ? JSON.stringify(text) : undefined, expected, reason);
}

const MAX_PORT = 65_535;
const MAX_COUNT = 1_000_000;
/** A little less than the longest string of V8. */
export const MAX_LENGTH_BYTES = 512 * 1024 * 1024 - 1024;
export const MIB = 1024 * 1024;

function wholeNumber(placeholder: string, max: number, min = 1): ValueKind<number> {
  return {
    placeholder,
    expected: `a whole number from ${min} to ${max}`,
    parse: (text) => {
      const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
      return value >= min && value <= max ? value : undefined;
    },
  };
}

export const count = (max = MAX_COUNT, min = 1): ValueKind<number> => wholeNumber("N", max, min);
export const milliseconds = (max = MAX_TIMER_MS, min = 1): ValueKind<number> => wholeNumber("MS", max, min);
export const bytes = (max = MAX_LENGTH_BYTES, min = 1): ValueKind<number> => wholeNumber("BYTES", max, min);

export function oneOf<const Word extends string>(words: readonly Word[], placeholder = "MODE"): ValueKind<Word> {
  return { placeholder, expected: `one of ${words.join(", ")}`, parse: (text) => words.find((word) => word === text) };
}

export const onOff: ValueKind<boolean> = {
  placeholder: "on|off",
  isSwitch: true,
  expected: "on or off",
  parse: (text) => (text === "on" ? true : text === "off" ? false : undefined),
};

/** The effective configuration shows it as a word. */
export const onOffWord: ValueKind<"on" | "off"> = { ...oneOf(["on", "off"], onOff.placeholder), isSwitch: true };

/** The operating system ends an argument at a NUL. */
function isArgument(value: unknown): value is string {
  return typeof value === "string" && !value.includes("\0");
}

export function anyText(placeholder: string): ValueKind<string> {
  return { placeholder, expected: "any text without NUL", parse: (text) => (isArgument(text) ? text : undefined) };
}

const portNumber = wholeNumber("PORT", MAX_PORT);

export const port: ValueKind<number> = {
  ...portNumber,
  expected: `${portNumber.expected}, with or without a colon before it`,
  parse: (text) => portNumber.parse(text.replace(/^:/, "")),
};

export const listenHost: ValueKind<string> = {
  placeholder: "HOST",
  expected: "a name, an IP address, or * for all interfaces, without a port and quotes",
  parse: (text) => {
    const address = text.replace(/^\[(.*)\]$/, "$1");
    return isIPv6(address) ? address : /^(?:\*|[\w.-]+)$/.test(text) ? text : undefined;
  },
};

export const listenAddress: ValueKind<ListenAddress> = {
  placeholder: "HOST:PORT",
  expected: `host:port, [ipv6]:port or :port, with a port up to ${MAX_PORT}`,
  parse: (text) => {
    const match = /^(?:\[(?<v6>[\da-f:.]+)\]|(?<name>[^\s:[\]]*)):(?<port>\d{1,5})$/i.exec(text);
    const number = Number(match?.groups?.["port"]);
    if (match === null || number > MAX_PORT) return undefined;
    const host = match.groups?.["v6"] ?? match.groups?.["name"] ?? "";
    return { host: host === "" ? undefined : host, port: number };
  },
};

export const jsonStrings: ValueKind<readonly string[]> = {
  placeholder: "JSON",
  expected: 'a JSON array of strings without NUL, for example ["-y","some-mcp"]',
  parse: (text) => {
    const value = parsedOrUndefined(text);
    return Array.isArray(value) && value.every(isArgument) ? value : undefined;
  },
  explain: (text) => {
    const value = parsedOrUndefined(text);
    if (value === undefined) return explainSyntax(text);
    if (!Array.isArray(value)) return `it is ${typeName(value)}, not an array`;
    const index = value.findIndex((element) => !isArgument(element));
    const element: unknown = value[index];
    return `element ${index + 1} ${typeof element === "string" ? "contains NUL" : `is ${typeName(element)}, not a string`}`;
  },
};

function parsedOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The message of V8 would quote the text. */
function explainSyntax(text: string): string {
  const scanner = new JsonScanner(text, NO_MEMBERS);
  scanner.advance();
  return `it is not JSON from ${scanner.failedAt < text.length ? `character ${scanner.failedAt + 1}` : "its end"} on`;
}

function typeName(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

export const endpointPath: ValueKind<string> = {
  placeholder: "PATH",
  expected: `a path that starts with / and has no query, other than ${RESERVED_PATHS.join(", ")}`,
  parse: (text) => (/^\/[\w\-./~%]*$/.test(text) && !isSamePath(text, RESERVED_PATHS) ? text : undefined),
};

/** RFC 6750 §2.1 allows fewer. These are all that a header can contain without spaces. */
export const bearerToken: ValueKind<string> = {
  placeholder: "TOKEN",
  isSecret: true,
  expected: "visible ASCII characters without spaces",
  parse: (text) => (/^[\x21-\x7e]+$/.test(text) ? text : undefined),
};

export const serverName: ValueKind<string> = {
  placeholder: "NAME",
  expected: "up to 128 visible ASCII characters without spaces",
  parse: (text) => (text.length <= 128 ? bearerToken.parse(text) : undefined),
};

export function keys(minLength: number): ValueKind<readonly string[]> {
  return {
    placeholder: "KEYS",
    isSecret: true,
    expected: `${bearerToken.expected}, at least ${minLength} for each key, several keys separated by commas`,
    parse: (text) => parseList(text, (item) => (item.length < minLength ? undefined : bearerToken.parse(item))),
    explain: (text) => {
      const items = text.split(",").map((item) => item.trim());
      const index = items.findIndex((item) => item.length < minLength);
      return index === -1 ? "it contains other characters" : `key ${index + 1} has fewer than ${minLength} characters`;
    },
  };
}

export const origins: ValueKind<"*" | readonly string[]> = {
  placeholder: "ORIGINS",
  expected: "*, or scheme://host or scheme://host:port, several separated by commas, international names in punycode",
  parse: (text) => (text.trim() === "*" ? "*" : parseList(text, parseOrigin)),
};

export const hosts: ValueKind<"*" | readonly string[]> = {
  placeholder: "HOSTS",
  expected:
    "*, or host, *.host, host:port or *.host:port, several separated by commas, IPv6 addresses in brackets, international names in punycode",
  parse: (text) => {
    if (text.trim() === "*") return "*";
    return parseList(text, (item) => {
      const wildcard = item.startsWith("*.") ? "*." : "";
      const authority = parseAuthority(item.slice(wildcard.length));
      return authority && `${wildcard}${authority.host}${authority.port === undefined ? "" : `:${authority.port}`}`;
    });
  },
};

const NAME_PATTERN = /^[^\s,=]+$/;

/** Each is compared with up to ten thousand tools. */
const MAX_PATTERNS = 500;

export const toolNames: ValueKind<readonly string[]> = {
  placeholder: "NAMES",
  expected: `names of tools, separated by commas, with * for any characters and ? for one in at most ${MAX_PATTERNS} of them`,
  parse: (text) => {
    const names = parseList(text, (item) => (NAME_PATTERN.test(item) ? item : undefined));
    return names !== undefined && names.filter((name) => /[*?]/.test(name)).length <= MAX_PATTERNS ? names : undefined;
  },
};

export function toolNumbers(max = MAX_COUNT, unit = "N"): ValueKind<readonly ToolNumber[]> {
  const number = wholeNumber(unit, max);
  return {
    placeholder: `NAME=${unit},…`,
    expected: `NAME=N, several separated by commas; NAME may contain * and ?, and N is ${number.expected}`,
    parse: (text) =>
      parseList(text, (item) => {
        const [pattern = "", digits = "", ...more] = item.split("=");
        const value = number.parse(digits);
        return NAME_PATTERN.test(pattern) && value !== undefined && more.length === 0 ? { pattern, value } : undefined;
      }),
  };
}

function parseList<Item>(text: string, parse: (item: string) => Item | undefined): readonly Item[] | undefined {
  const values = text.split(",").map((item) => parse(item.trim()));
  return values.every((value) => value !== undefined) ? values : undefined;
}

export const VARIABLE_PREFIX = "CLAW_MCP_STDIO_";

export interface Option<Setting> {
  /** Undefined if the command line has another place for the value. */
  readonly flag: string | undefined;
  readonly variable: `${typeof VARIABLE_PREFIX}${string}`;
  readonly kind: ValueKind<Setting>;
  readonly description: string;
  readonly defaultText: string | undefined;
  readonly defaultValue: Setting;
}

type Unnamed<Setting> = Omit<Option<Setting>, "flag" | "variable">;

/** Without a default, the value is `undefined` unless it is set. */
export function option<Value>(kind: ValueKind<Value>, description: string, defaultText: string | number): Unnamed<Value>;
export function option<Value>(kind: ValueKind<Value>, description: string): Unnamed<Value | undefined>;
export function option<Value>(kind: ValueKind<Value>, description: string, input?: string | number): Unnamed<Value | undefined> {
  const defaultText = input?.toString();
  const defaultValue = defaultText === undefined ? undefined : kind.parse(defaultText);
  if (defaultText !== undefined && defaultValue === undefined) throw new Error(`${defaultText} is not valid: ${description}`);
  return { kind, description, defaultText, defaultValue };
}

/** The flag of `maxSessions` is --max-sessions, and its variable ends with MAX_SESSIONS. */
export function named<Options extends Readonly<Record<string, Unnamed<unknown>>>>(options: Options) {
  const entries = Object.entries(options).map(([key, each]) => {
    const words = key.split(/(?=[A-Z])/).map((word) => word.toLowerCase());
    const flag = key === "command" || key === "args" ? undefined : words.join("-");
    return [key, { ...each, flag, variable: `${VARIABLE_PREFIX}${words.join("_").toUpperCase()}` }] as const;
  });
  return Object.fromEntries(entries) as {
    readonly [Key in keyof Options]: Options[Key] extends Unnamed<infer Setting> ? Option<Setting> : never;
  };
}

export function flagUsage({ flag, kind }: Option<unknown>): string | undefined {
  if (flag === undefined) return undefined;
  return kind.isSwitch ? `--${flag}[=${kind.placeholder}]` : `--${flag} ${kind.placeholder}`;
}

/** Clients and proxies decode paths, resolve dots and merge slashes; some ignore case. */
export function isSamePath(path: string, paths: readonly string[]): boolean {
  const resolved = posix.normalize(decode(path)).replace(/(?<=.)\/$/, "");
  return paths.includes(resolved.toLowerCase());
}

function decode(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
