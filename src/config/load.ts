import { statSync } from "node:fs";
import { parseArgs } from "node:util";
import { largestBodyBytes } from "../memory/body-memory.ts";
import { defaultBudgetBytes } from "../memory/default-budget.ts";
import { HOLDER_SHARE } from "../memory/memory-budget.ts";
import { isSamePath, LEGACY_PATHS } from "../routes.ts";
import { readAuthTokenFile } from "./auth-token-file.ts";
import { VARIABLE_PREFIX } from "./option.ts";
import { collectSettings, type OptionKey, OPTIONS, type Settings } from "./options.ts";
import { describeInvalid, onOff, problemText } from "./value-kinds.ts";

/** The effective configuration: the settings of all options, and values derived from several of them. */
export interface Config extends Omit<Settings, "addr" | "memoryBudgetBytes"> {
  readonly memoryBudgetBytes: number;
  /** Empty only if no command is needed. */
  readonly command: string;
  /** Undefined for all interfaces. */
  readonly host: string | undefined;
  /** AUTH_TOKEN, or the tokens of AUTH_TOKEN_FILE at the start. Each of them is valid. If empty, clients need no token. */
  readonly authTokens: readonly string[];
}

export type Environment = Readonly<Record<string, string | undefined>>;

export interface CommandLine {
  /** The flags before the command, by name, with their texts; undefined for a flag without a value. */
  readonly flags: ReadonlyMap<string, string | undefined>;
  /** The command and its arguments. */
  readonly rest: readonly string[];
  /** True if `--` precedes the command. */
  readonly hasSeparator: boolean;
  /** A text for each part that was most likely meant otherwise. */
  readonly problems: readonly string[];
}

export interface LoadResult {
  /** Undefined if there are problems. */
  readonly config: Config | undefined;
  /** One text for each problem, with the name of the option. */
  readonly problems: readonly string[];
  /** Variables with the sidecar's prefix that are not options: most likely misspelled. */
  readonly unknownVariables: readonly string[];
  /** Flags of the sidecar after the command, which the server gets, each with advice. Empty if `--` precedes the command. */
  readonly flagsAfterCommand: readonly string[];
}

const BOOLEAN_FLAGS = ["help", "version", "check-config"];

/** Flags by name: `string` with a value, `boolean` without. */
export type FlagTypes = Readonly<Record<string, { readonly type: "string" | "boolean"; readonly short?: string }>>;

function serveFlagTypes(): FlagTypes {
  const types: Record<string, FlagTypes[string]> = { help: { type: "boolean", short: "h" } };
  for (const flag of BOOLEAN_FLAGS) types[flag] ??= { type: "boolean" };
  for (const { flag, isSwitch } of Object.values(OPTIONS)) {
    if (flag !== undefined) types[flag] = { type: isSwitch ? "boolean" : "string" };
  }
  return types;
}

/** Splits the command line at the first word that is not an option, or at `--`. The rest is the command of the server. */
export function readCommandLine(argv: readonly string[], options: FlagTypes = serveFlagTypes()): CommandLine {
  const { tokens } = parseArgs({ args: [...argv], options, strict: false, allowPositionals: true, tokens: true });
  const flags = new Map<string, string | undefined>();
  const problems: string[] = [];
  /** The name of the previous flag, if it is a switch without a value. */
  let bareSwitch: string | undefined;
  for (const token of tokens) {
    if (token.kind === "positional") {
      const { value } = token;
      if (bareSwitch !== undefined && onOff.parse(value) !== undefined) {
        problems.push(`--${bareSwitch} takes its value with an equals sign; write --${bareSwitch}=${value}`);
        flags.set(bareSwitch, value);
      }
      return { flags, rest: argv.slice(token.index), hasSeparator: false, problems };
    }
    if (token.kind === "option-terminator") return { flags, rest: argv.slice(token.index + 1), hasSeparator: true, problems };
    // `parseArgs` takes the next flag as the value of a flag without one.
    const isSwallowed = token.value?.startsWith("-") === true && !token.inlineValue;
    const isSwitch = options[token.name]?.type === "boolean" && !BOOLEAN_FLAGS.includes(token.name);
    flags.set(token.name, isSwallowed ? undefined : (token.value ?? (isSwitch ? "on" : undefined)));
    bareSwitch = isSwitch && token.value === undefined ? token.name : undefined;
  }
  return { flags, rest: [], hasSeparator: false, problems };
}

/** Returns the flags of the sidecar among the arguments of a server, with advice. `--help` and `--version` are most likely the server's own. */
function flagsAfterCommand({ rest: [, ...args], hasSeparator }: CommandLine): readonly string[] {
  if (hasSeparator) return [];
  const names = new Set(["check-config", ...Object.values(OPTIONS).map(({ flag }) => flag)]);
  const end = args.indexOf("--");
  const words = end === -1 ? args : args.slice(0, end);
  return words.flatMap((word) => {
    const [flag, name] = /^--([^=]+)/.exec(word) ?? [];
    const advice = "write it before the command; if the server takes it, write -- before the command";
    return flag !== undefined && names.has(name) ? [`${flag}: ${advice}`] : [];
  });
}

/** Reads all options, from flags before environment variables, and reports all problems at once. */
export function loadConfig(commandLine: CommandLine, environment: Environment, needsCommand = true): LoadResult {
  const { flags, rest } = commandLine;
  const given = new GivenOptions(commandLine, environment);
  const settings = collectSettings((key) => given.read(key));
  const { addr, command: commandVariable, ...direct } = settings;
  const [command = "", ...args] = rest.length > 0 ? rest : [commandVariable ?? "", ...settings.args];
  const { problems } = given;
  if (needsCommand && command === "") {
    problems.push(`no command is given; put it after the options, as in -- npx -y some-mcp, or set ${OPTIONS.command.variable}`);
  }
  problems.push(...contradictions(given, settings));
  const authTokens = needsCommand ? readAuthTokens(given, settings) : [];
  const { restartBackoffMs: first, restartMaxMs: longest } = settings;
  const isFirstGiven = given.sourceOf("restartBackoffMs") !== undefined;
  const knownVariables = new Set<string>(Object.values(OPTIONS).map(({ variable }) => variable));
  const unknownVariables = Object.keys(environment).filter((name) => name.startsWith(VARIABLE_PREFIX) && !knownVariables.has(name));
  const warnings = { unknownVariables, flagsAfterCommand: flagsAfterCommand(commandLine) };
  if (problems.length > 0) return { config: undefined, problems, ...warnings };
  // ADDR takes precedence over PORT. A flag takes precedence over any variable, so --port replaces the port of the variable ADDR.
  const isPortFromFlag = flags.has("port") && !flags.has("addr");
  const isAddressGiven = given.sourceOf("addr") !== undefined;
  const memoryBudgetBytes = settings.memoryBudgetBytes ?? defaultBudgetBytes();
  // A message that could never be forwarded is too long. It is not an effect of other messages.
  const shareBytes = Math.floor(memoryBudgetBytes * HOLDER_SHARE);
  const config: Config = {
    ...direct,
    memoryBudgetBytes,
    maxBodyBytes: Math.min(settings.maxBodyBytes, largestBodyBytes(memoryBudgetBytes)),
    maxLineBytes: Math.min(settings.maxLineBytes, shareBytes),
    replayMaxBytes: Math.min(settings.replayMaxBytes, shareBytes),
    authTokens,
    command,
    args,
    host: addr.host,
    port: isPortFromFlag || !isAddressGiven ? settings.port : addr.port,
    // If only one of the two pauses is set, it bounds the default of the other.
    restartBackoffMs: isFirstGiven ? first : Math.min(first, longest),
    restartMaxMs: isFirstGiven ? Math.max(first, longest) : longest,
  };
  return { config, problems, ...warnings };
}

/** The options that an operator has set, and the problems with them. */
class GivenOptions {
  readonly problems: string[];
  readonly #flags: CommandLine["flags"];
  readonly #environment: Environment;
  readonly #invalid = new Set<OptionKey>();

  constructor({ flags, problems }: CommandLine, environment: Environment) {
    this.#flags = flags;
    this.#environment = environment;
    const known = new Set<string>(BOOLEAN_FLAGS);
    for (const { flag } of Object.values(OPTIONS)) if (flag !== undefined) known.add(flag);
    const unknown = [...flags.keys()].filter((name) => !known.has(name));
    this.problems = [...problems, ...unknown.map((name) => `--${name} is not an option; see --help`)];
  }

  /** Returns the flag or variable that sets an option; undefined if none does. */
  sourceOf(key: OptionKey): string | undefined {
    return this.#find(key)?.source;
  }

  /** True if an option is set to a value that is not valid. */
  isInvalid(key: OptionKey): boolean {
    return this.#invalid.has(key);
  }

  /** Returns the setting of an option. An invalid value counts as not set, so that the other options can still be checked. */
  read<Key extends OptionKey>(key: Key): Settings[Key] {
    const option = OPTIONS[key];
    const found = this.#find(key);
    if (found === undefined) return option.defaultValue;
    const value = found.text === "" ? undefined : option.kind.parse(found.text);
    if (value !== undefined) return value;
    this.#invalid.add(key);
    this.problems.push(describeInvalid(found.source, found.text, option));
    return option.defaultValue;
  }

  /** An empty variable counts as not set: compose files pass unset variables as empty ones. */
  #find(key: OptionKey): { readonly source: string; readonly text: string } | undefined {
    const { flag, variable } = OPTIONS[key];
    if (flag !== undefined && this.#flags.has(flag)) return { source: `--${flag}`, text: this.#flags.get(flag) ?? "" };
    const text = this.#environment[variable] ?? "";
    return text === "" ? undefined : { source: variable, text };
  }
}

/** Yields the problems of options that are valid by themselves. */
function* contradictions(given: GivenOptions, settings: Settings): Generator<string, void> {
  const { cwd, legacySse, path, childEra, modern, isolation, restartBackoffMs: first, restartMaxMs: longest } = settings;
  if (cwd !== undefined && !isDirectory(cwd)) yield problemText(given.sourceOf("cwd") ?? "", JSON.stringify(cwd), "an existing directory");
  if (legacySse === "on" && isSamePath(path, LEGACY_PATHS)) {
    yield `${given.sourceOf("path")} is ${JSON.stringify(path)}, but LEGACY_SSE needs ${LEGACY_PATHS.join(" and ")}`;
  }
  if (childEra === "modern" && (modern === "off" || isolation === "session")) {
    const reason = modern === "off" ? "MODERN is off" : "ISOLATION is session";
    yield `${given.sourceOf("childEra")} is modern, but ${reason}, so the server gets initialize only`;
  }
  const [firstSource, longestSource] = [given.sourceOf("restartBackoffMs"), given.sourceOf("restartMaxMs")];
  const isChecked = longestSource !== undefined && !given.isInvalid("restartBackoffMs") && !given.isInvalid("restartMaxMs");
  if (firstSource !== undefined && isChecked && first > longest)
    yield `${firstSource} (${first}) is greater than RESTART_MAX_MS (${longest})`;
}

/** Must be called only for `serve`: `healthcheck` needs no tokens. */
function readAuthTokens(given: GivenOptions, { authToken, authTokenFile, requireAuth }: Settings): readonly string[] {
  const { problems } = given;
  const [token, file] = [given.sourceOf("authToken"), given.sourceOf("authTokenFile")];
  if (token !== undefined && file !== undefined) {
    problems.push(`${token} and ${file} are both set; use only one of them`);
  } else if (authTokenFile !== undefined) {
    const { tokens, problem } = readAuthTokenFile(authTokenFile);
    if (tokens !== undefined) return tokens;
    // The value may be a token by mistake, so it is shown only if it looks like a path.
    const shown = /^[.~]*\//.test(authTokenFile) ? JSON.stringify(authTokenFile) : undefined;
    problems.push(problemText(file ?? "", shown, "a file with one token a line", problem));
  } else if (requireAuth && token === undefined && file === undefined) {
    const needed = `neither ${OPTIONS.authToken.variable} nor ${OPTIONS.authTokenFile.variable} is set`;
    problems.push(`${given.sourceOf("requireAuth")} is on, but ${needed}`);
  }
  return authToken === undefined ? [] : [authToken];
}

export function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}
