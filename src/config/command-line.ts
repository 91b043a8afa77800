import { parseArgs, type ParseArgsOptionsConfig } from "node:util";
import type { Option } from "./option.ts";
import { ALL_OPTIONS } from "./options.ts";

const MAX_TYPOS = 2;

export function nearest(word: string, known: Iterable<string>): string | undefined {
  let best: string | undefined;
  let fewest = MAX_TYPOS + 1;
  for (const each of known) {
    const count = typos(word, each);
    // Half of a short word would be another word.
    if (count >= fewest || count * 2 > each.length) continue;
    best = each;
    fewest = count;
  }
  return best;
}

function typos(text: string, other: string): number {
  if (Math.abs(text.length - other.length) > MAX_TYPOS) return MAX_TYPOS + 1;
  let above = Array.from({ length: other.length + 1 }, (_, column) => column);
  for (const [row, character] of Array.from(text).entries()) {
    const line = [row + 1];
    for (const [column, otherCharacter] of Array.from(other).entries()) {
      const [left = 0, up = 0, diagonal = 0] = [line[column], above[column + 1], above[column]];
      line.push(Math.min(left + 1, up + 1, diagonal + (character === otherCharacter ? 0 : 1)));
    }
    above = line;
  }
  return above[other.length] ?? 0;
}

export interface CommandLine {
  /** Undefined for a flag without a value. */
  readonly flags: ReadonlyMap<string, string | undefined>;
  readonly rest: readonly string[];
  readonly hasSeparator: boolean;
  readonly problems: readonly string[];
}

/** A flag may take these words although it needs none. Any other word is the command. */
const OPTIONAL_VALUES: ReadonlySet<string> = new Set(["on", "off"]);
const HELP_TOPIC = "all";

/** Words that other programs use. */
const OTHER_WAYS: ReadonlyMap<string, string> = new Map([
  ["stdio", "write the command of the server, word by word, after --"],
  ["outputTransport", "the sidecar serves Streamable HTTP, and HTTP+SSE too with --legacy-sse"],
]);

const OTHER_FLAGS: ReadonlySet<string> = new Set(["help", "version", "check-config"]);

export function flagTypes(options: readonly Option<unknown>[]): ParseArgsOptionsConfig {
  const entries = options.map(({ flag = "", kind }) => [flag, { type: kind.isSwitch ? "boolean" : "string" }] as const);
  return { ...Object.fromEntries(entries), help: { type: "boolean", short: "h" } };
}

const SERVE_FLAGS: ParseArgsOptionsConfig = {
  ...flagTypes(ALL_OPTIONS.filter(({ flag }) => flag !== undefined)),
  port: { type: "string", short: "p" },
  version: { type: "boolean", short: "v" },
  "check-config": { type: "boolean" },
};
export const FLAG_NAMES: readonly string[] = Object.keys(SERVE_FLAGS);

/** Up to the first word that is not an option, or `--`. The rest is the command of the server. */
export function readCommandLine(argv: readonly string[], options: ParseArgsOptionsConfig = SERVE_FLAGS): CommandLine {
  const { tokens } = parseArgs({ args: [...argv], options, strict: false, allowPositionals: true, tokens: true });
  const flags = new Map<string, string | undefined>();
  const problems: string[] = [];
  let open: string | undefined;
  for (const token of tokens) {
    if (token.kind === "positional") {
      const isValue = open === "help" ? token.value === HELP_TOPIC : OPTIONAL_VALUES.has(token.value);
      if (open === undefined || !isValue) {
        return { flags, rest: argv.slice(token.index), hasSeparator: false, problems };
      }
      flags.set(open, token.value);
      open = undefined;
      continue;
    }
    if (token.kind === "option-terminator") return { flags, rest: argv.slice(token.index + 1), hasSeparator: true, problems };
    const { name, value, inlineValue } = token;
    open = undefined;
    // `parseArgs` takes the next flag as the value of a flag without one.
    if (value?.startsWith("-") === true && value !== "-" && !inlineValue) {
      problems.push(`--${name} has no value; a value that begins with a dash is written with an equals sign: --${name}=VALUE`);
      continue;
    }
    const isSwitch = options[name]?.type === "boolean" && !OTHER_FLAGS.has(name);
    flags.set(name, value ?? (isSwitch ? "on" : undefined));
    if (value === undefined && (isSwitch || name === "help")) open = name;
  }
  return { flags, rest: [], hasSeparator: false, problems };
}

/** `--help` and `--version` are most likely the server's own. */
export function flagsAfterCommand({ rest: [, ...args], hasSeparator }: CommandLine): readonly string[] {
  if (hasSeparator) return [];
  const names = new Set(FLAG_NAMES.filter((name) => name !== "help" && name !== "version"));
  const end = args.indexOf("--");
  const words = end === -1 ? args : args.slice(0, end);
  return words.flatMap((word) => {
    const [flag, name] = /^--([^=]+)/.exec(word) ?? [];
    const advice = "write it before the command; if the server takes it, write -- before the command";
    return flag !== undefined && name !== undefined && names.has(name) ? [`${flag}: ${advice}`] : [];
  });
}

/** @param help the command that shows all. */
export function unknownFlags(flags: CommandLine["flags"], known: readonly string[], help: string): string[] {
  return [...flags.keys()].flatMap((name) => {
    if (known.includes(name)) return [];
    const meant = nearest(name, known);
    const advice = OTHER_WAYS.get(name) ?? (meant === undefined ? `see ${help}` : `did you mean --${meant}?`);
    return [`${name.length === 1 ? "-" : "--"}${name} is not an option; ${advice}`];
  });
}
