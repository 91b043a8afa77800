import { statSync } from "node:fs";
import { isLoopback, type ListenAddress } from "./authority.ts";
import { defaultBudgetBytes, HOLDER_SHARE, largestBodyBytes } from "../memory.ts";
import { LEGACY_PATHS, PAGE_PATHS } from "../routes.ts";
import { type CommandLine, FLAG_NAMES, flagsAfterCommand, nearest, unknownFlags } from "./command-line.ts";
import { describeInvalid, problemText, VARIABLE_PREFIX, isSamePath } from "./option.ts";
import { collectSettings, type OptionKey, OPTIONS, type Settings } from "./options.ts";
import { KEYS, readSecretFile, type SecretKind, TOKENS } from "./secret-file.ts";

/** The effective configuration: the settings of all options, and values derived from several of them. */
export interface Config extends Omit<Settings, "addr" | "host" | "memoryBudgetBytes" | "page"> {
  readonly memoryBudgetBytes: number;
  readonly page: boolean;
  /** Empty only if no command is needed. */
  readonly command: string;
  /** Undefined for all interfaces. */
  readonly host: string | undefined;
  /** AUTH_TOKEN, or the tokens of AUTH_TOKEN_FILE at the start. Each of them is valid. If empty, clients need no token. */
  readonly authTokens: readonly string[];
  /** The keys of SESSION_KEY or SESSION_KEY_FILE. The first one signs. If empty, keys are derived from the tokens. */
  readonly sessionKeys: readonly string[];
}

export type Environment = Readonly<Record<string, string | undefined>>;

export interface LoadResult {
  /** Undefined if there are problems. */
  readonly config: Config | undefined;
  /** One text for each problem, with the name of the option. */
  readonly problems: readonly string[];
  /** Variables with the sidecar's prefix that are not options, each with the one that is most like it. */
  readonly unknownVariables: readonly string[];
  /** Flags of the sidecar after the command, which the server gets, each with advice. Empty if `--` precedes the command. */
  readonly flagsAfterCommand: readonly string[];
  /** The options that are set. */
  readonly given: ReadonlyMap<OptionKey, GivenOption>;
}

/** The source of a command that is not in the environment. */
export const COMMAND_LINE = "command line";

/** The text of an option, and the flag, the variable or the place that it comes from. */
interface GivenOption {
  readonly source: string;
  readonly text: string;
}

/** Reads all options, from flags before environment variables, and reports all problems at once. */
export function loadConfig(commandLine: CommandLine, environment: Environment, needsCommand = true): LoadResult {
  const { flags, rest } = commandLine;
  const given = new GivenOptions(commandLine, environment);
  const settings = collectSettings((key) => given.read(key));
  const { addr: _, command: commandVariable, ...direct } = settings;
  const [command = "", ...args] = rest.length > 0 ? rest : [commandVariable ?? "", ...settings.args];
  const { problems } = given;
  if (needsCommand && command === "") {
    problems.push(`no command is given; put it after the options, as in -- npx -y some-mcp, or set ${OPTIONS.command.variable}`);
  }
  problems.push(...contradictions(given, settings));
  const authTokens = needsCommand ? readAuthTokens(given, settings) : [];
  const sessionKeys = needsCommand ? readSessionKeys(given, settings) : [];
  const { restartBackoffMs: first, restartMaxMs: longest } = settings;
  const isFirstGiven = given.sourceOf("restartBackoffMs") !== undefined;
  const knownVariables = new Set<string>(Object.values(OPTIONS).map(({ variable }) => variable));
  const unknownVariables = Object.keys(environment)
    .filter((name) => name.startsWith(VARIABLE_PREFIX) && !knownVariables.has(name))
    .map((name) => {
      const meant = nearest(name, knownVariables);
      return meant === undefined ? name : `${name}; did you mean ${meant}?`;
    });
  const found = { unknownVariables, flagsAfterCommand: flagsAfterCommand(commandLine), given: given.all(rest.length > 0) };
  if (problems.length > 0) return { config: undefined, problems, ...found };
  const listen = listenAddressOf(settings, flags);
  const memoryBudgetBytes = settings.memoryBudgetBytes ?? defaultBudgetBytes();
  // A message that could never be forwarded is too long. It is not an effect of other messages.
  const shareBytes = Math.floor(memoryBudgetBytes * HOLDER_SHARE);
  const config: Config = {
    ...direct,
    memoryBudgetBytes,
    page: settings.page ?? (isLoopback((settings.adminAddr ?? listen).host) && !isSamePath(settings.path, PAGE_PATHS)),
    maxBodyBytes: Math.min(settings.maxBodyBytes, largestBodyBytes(memoryBudgetBytes)),
    maxLineBytes: Math.min(settings.maxLineBytes, shareBytes),
    replayMaxBytes: Math.min(settings.replayMaxBytes, shareBytes),
    authTokens,
    sessionKeys,
    command,
    args,
    ...listen,
    // If only one of the two pauses is set, it bounds the default of the other.
    restartBackoffMs: isFirstGiven ? first : Math.min(first, longest),
    restartMaxMs: isFirstGiven ? Math.max(first, longest) : longest,
  };
  return { config, problems, ...found };
}

/** ADDR takes precedence over HOST and PORT. A flag takes precedence over any variable, so --host and --port replace parts of the variable ADDR. */
function listenAddressOf({ addr, host: hostText, port }: Settings, flags: CommandLine["flags"]): ListenAddress {
  const host = hostText === "*" ? undefined : hostText;
  if (addr === undefined) return { host, port };
  if (flags.has("addr")) return addr;
  return { host: flags.has("host") ? host : addr.host, port: flags.has("port") ? port : addr.port };
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
    this.problems = [...problems, ...unknownFlags(flags, FLAG_NAMES, "--help all")];
  }

  /** Returns the flag or variable that sets an option; undefined if none does. */
  sourceOf(key: OptionKey): string | undefined {
    return this.#find(key)?.source;
  }

  /** Returns all options that are set. @param isCommandGiven true if the command line has the command. */
  all(isCommandGiven: boolean): Map<OptionKey, GivenOption> {
    const all = new Map<OptionKey, GivenOption>();
    for (const key of Object.keys(OPTIONS) as OptionKey[]) {
      const found = this.#find(key);
      if (found !== undefined) all.set(key, found);
    }
    if (isCommandGiven) for (const key of ["command", "args"] as const) all.set(key, { source: COMMAND_LINE, text: "" });
    return all;
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
  #find(key: OptionKey): GivenOption | undefined {
    const { flag, variable } = OPTIONS[key];
    if (flag !== undefined && this.#flags.has(flag)) return { source: `--${flag}`, text: this.#flags.get(flag) ?? "" };
    const text = this.#environment[variable] ?? "";
    return text === "" ? undefined : { source: variable, text };
  }
}

/** Yields the problems of options that are valid by themselves. */
function* contradictions(given: GivenOptions, settings: Settings): Generator<string, void> {
  const { cwd, legacySse, page, path, childEra, modern, isolation, restartBackoffMs: first, restartMaxMs: longest } = settings;
  if (cwd !== undefined && !isDirectory(cwd)) yield problemText(given.sourceOf("cwd") ?? "", JSON.stringify(cwd), "an existing directory");
  if (legacySse === "on" && isSamePath(path, LEGACY_PATHS)) {
    yield `${given.sourceOf("path")} is ${JSON.stringify(path)}, but LEGACY_SSE needs ${LEGACY_PATHS.join(" and ")}`;
  }
  if (page === true && isSamePath(path, PAGE_PATHS))
    yield `${given.sourceOf("path")} is ${JSON.stringify(path)}, but PAGE needs ${PAGE_PATHS.join(" and ")}`;
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
    return readSecrets(given, file ?? "", authTokenFile, TOKENS);
  } else if (requireAuth && token === undefined && file === undefined) {
    const needed = `neither ${OPTIONS.authToken.variable} nor ${OPTIONS.authTokenFile.variable} is set`;
    problems.push(`${given.sourceOf("requireAuth")} is on, but ${needed}`);
  }
  return authToken === undefined ? [] : [authToken];
}

/** Must be called only for `serve`. */
function readSessionKeys(given: GivenOptions, { sessionKey, sessionKeyFile }: Settings): readonly string[] {
  const [key, file] = [given.sourceOf("sessionKey"), given.sourceOf("sessionKeyFile")];
  if (key !== undefined && file !== undefined) given.problems.push(`${key} and ${file} are both set; use only one of them`);
  else if (sessionKeyFile !== undefined) return readSecrets(given, file ?? "", sessionKeyFile, KEYS);
  return sessionKey ?? [];
}

/** @param source the option that names the file. */
function readSecrets({ problems }: GivenOptions, source: string, path: string, kind: SecretKind): readonly string[] {
  const { texts = [], problem } = readSecretFile(path, kind);
  // The value may be a secret by mistake, so it is shown only if it looks like a path.
  const shown = /^[.~]*\//.test(path) ? JSON.stringify(path) : undefined;
  if (problem !== undefined) problems.push(problemText(source, shown, `a file with one ${kind.noun} a line`, problem));
  return texts;
}

export function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

/** The environment for the MCP server: that of the container, without the sidecar's own variables, which include its token. */
export function serverEnvironment(environment: Environment): Record<string, string> {
  const own: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined && !name.startsWith(VARIABLE_PREFIX)) own[name] = value;
  }
  return own;
}

/** Returns the environment without options that are not secret, even if their names look so: the path of a token file may be shown. */
export function withoutPlainOptions(environment: Environment): Environment {
  const plain = new Set<string>(
    Object.values(OPTIONS)
      .filter(({ isSecret }) => !isSecret)
      .map(({ variable }) => variable),
  );
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !plain.has(name)));
}
