import { statSync } from "node:fs";
import { isLoopback, type ListenAddress } from "./authority.ts";
import { defaultBudgetBytes, HOLDER_SHARE, largestBodyBytes } from "../memory.ts";
import { LEGACY_PATHS, PAGE_PATHS } from "../routes.ts";
import { type CommandLine, FLAG_NAMES, flagsAfterCommand, nearest, unknownFlags } from "./command-line.ts";
import { describeInvalid, isSamePath, type Option, problemText, VARIABLE_PREFIX } from "./option.ts";
import { ALL_OPTIONS, type OptionKey, OPTIONS, type Settings, type SettingsOf } from "./options.ts";
import { readSecretFile } from "./secret-file.ts";

export interface Config extends Omit<Settings, "addr" | "host" | "memoryBudgetBytes" | "page"> {
  readonly memoryBudgetBytes: number;
  readonly page: boolean;
  /** Empty only if none is needed. */
  readonly command: string;
  /** Undefined for all interfaces. */
  readonly host: string | undefined;
  /** Each is valid. If empty, clients need no token. */
  readonly authTokens: readonly string[];
  /** The first one signs. If empty, keys are derived from the tokens. */
  readonly sessionKeys: readonly string[];
}

export type Environment = Readonly<Record<string, string | undefined>>;

export interface LoadResult {
  readonly config: Config | undefined;
  readonly problems: readonly string[];
  /** Each with the option that is most like it. */
  readonly unknownVariables: readonly string[];
  /** The server gets them. Each has advice. */
  readonly flagsAfterCommand: readonly string[];
  readonly given: ReadSettings["given"];
}

export const COMMAND_LINE = "command line";

/** Flags take precedence. Reports all problems at once. */
export function loadConfig(commandLine: CommandLine, environment: Environment, needsCommand = true): LoadResult {
  const { flags, rest } = commandLine;
  const read = readSettings(OPTIONS, flags, environment);
  const { settings, given, problems } = read;
  problems.unshift(...commandLine.problems, ...unknownFlags(flags, FLAG_NAMES, "--help all"));
  const { addr: _, command: commandVariable, ...direct } = settings;
  const [command = "", ...args] = rest.length > 0 ? rest : [commandVariable ?? "", ...settings.args];
  if (needsCommand && command === "") {
    problems.push(`no command is given; put it after the options, as in -- npx -y some-mcp, or set ${OPTIONS.command.variable}`);
  }
  problems.push(...contradictions(read));
  // `healthcheck` needs no tokens.
  const authTokens = needsCommand ? readAuthTokens(read) : [];
  const sessionKeys = needsCommand ? readSecrets(read, "sessionKey") : [];
  const { restartBackoffMs: first, restartMaxMs: longest } = settings;
  const isFirstGiven = given.has("restartBackoffMs");
  const knownVariables = new Set<string>(ALL_OPTIONS.map(({ variable }) => variable));
  const unknownVariables = Object.keys(environment)
    .filter((name) => name.startsWith(VARIABLE_PREFIX) && !knownVariables.has(name))
    .map((name) => {
      const meant = nearest(name, knownVariables);
      return meant === undefined ? name : `${name}; did you mean ${meant}?`;
    });
  if (rest.length > 0) for (const key of ["command", "args"] as const) given.set(key, { source: COMMAND_LINE, text: "" });
  const found = { unknownVariables, flagsAfterCommand: flagsAfterCommand(commandLine), given };
  if (problems.length > 0) return { config: undefined, problems, ...found };
  const listen = listenAddressOf(settings, flags);
  const memoryBudgetBytes = settings.memoryBudgetBytes ?? defaultBudgetBytes();
  // A message that could never be forwarded is too long, whatever memory other messages take.
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

/** ADDR takes precedence over HOST and PORT, but flags over any variable: --host and --port replace parts of the variable ADDR. */
function listenAddressOf({ addr, host: hostText, port }: Settings, flags: CommandLine["flags"]): ListenAddress {
  const host = hostText === "*" ? undefined : hostText;
  if (addr === undefined) return { host, port };
  if (flags.has("addr")) return addr;
  return { host: flags.has("host") ? host : addr.host, port: flags.has("port") ? port : addr.port };
}

type ReadSettings = ReturnType<typeof readSettings<typeof OPTIONS>>;

/** An empty variable counts as not set: compose files pass unset ones as empty. So does an invalid value, so that the others are still checked. */
export function readSettings<Table extends Readonly<Record<string, Option<unknown>>>>(
  table: Table,
  flags: CommandLine["flags"],
  environment: Environment,
) {
  const problems: string[] = [];
  const settings: Partial<Record<keyof Table, unknown>> = {};
  const given = new Map<keyof Table, { readonly source: string; readonly text: string }>();
  const invalid = new Set<keyof Table>();
  for (const [key, { flag, variable, kind, defaultValue }] of Object.entries(table)) {
    settings[key as keyof Table] = defaultValue;
    const isFlag = flag !== undefined && flags.has(flag);
    const text = isFlag ? (flags.get(flag) ?? "") : (environment[variable] ?? "");
    if (!isFlag && text === "") continue;
    const source = isFlag ? `--${flag}` : variable;
    given.set(key, { source, text });
    const value = text === "" ? undefined : kind.parse(text);
    if (value !== undefined) settings[key as keyof Table] = value;
    else {
      invalid.add(key);
      problems.push(describeInvalid(source, text, kind));
    }
  }
  return { settings: settings as SettingsOf<Table>, given, invalid, problems };
}

function* contradictions({ settings, given, invalid }: ReadSettings): Generator<string, void> {
  const { cwd, legacySse, page, path, childEra, modern, isolation, restartBackoffMs: first, restartMaxMs: longest } = settings;
  const sourceOf = (key: OptionKey): string => given.get(key)?.source ?? "";
  if (cwd !== undefined && !isDirectory(cwd)) yield problemText(sourceOf("cwd"), JSON.stringify(cwd), "an existing directory");
  const ofPath = `${sourceOf("path")} is ${JSON.stringify(path)}`;
  if (legacySse === "on" && isSamePath(path, LEGACY_PATHS)) yield `${ofPath}, but LEGACY_SSE needs ${LEGACY_PATHS.join(" and ")}`;
  if (page === true && isSamePath(path, PAGE_PATHS)) yield `${ofPath}, but PAGE needs ${PAGE_PATHS.join(" and ")}`;
  if (childEra === "modern" && (modern === "off" || isolation === "session")) {
    const reason = modern === "off" ? "MODERN is off" : "ISOLATION is session";
    yield `${sourceOf("childEra")} is modern, but ${reason}, so the server gets initialize only`;
  }
  const areGiven = (["restartBackoffMs", "restartMaxMs"] as const).every((key) => given.has(key) && !invalid.has(key));
  if (areGiven && first > longest) yield `${sourceOf("restartBackoffMs")} (${first}) is greater than RESTART_MAX_MS (${longest})`;
}

function readAuthTokens(read: ReadSettings): readonly string[] {
  const { settings, given, problems } = read;
  if (settings.requireAuth && !given.has("authToken") && !given.has("authTokenFile")) {
    const needed = `neither ${OPTIONS.authToken.variable} nor ${OPTIONS.authTokenFile.variable} is set`;
    problems.push(`${given.get("requireAuth")?.source} is on, but ${needed}`);
  }
  return readSecrets(read, "authToken");
}

/** Only one of the option and its file may be set. */
function readSecrets({ settings, given, problems }: ReadSettings, key: "authToken" | "sessionKey"): readonly string[] {
  const fileKey = `${key}File` as const;
  const noun = key === "authToken" ? "token" : "key";
  const texts = [settings[key] ?? []].flat();
  const path = settings[fileKey];
  const [source, fileSource] = [given.get(key)?.source, given.get(fileKey)?.source];
  if (source !== undefined && fileSource !== undefined) problems.push(`${source} and ${fileSource} are both set; use only one of them`);
  else if (path !== undefined) {
    const { texts: inFile = [], problem } = readSecretFile(path, noun);
    // The value may be a secret by mistake, so it is shown only if it looks like a path.
    const shown = /^[.~]*\//.test(path) ? JSON.stringify(path) : undefined;
    if (problem !== undefined) problems.push(problemText(fileSource ?? "", shown, `a file with one ${noun} a line`, problem));
    return inFile;
  }
  return texts;
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

/** Without the sidecar's own variables, which include its token. */
export function serverEnvironment(environment: Environment): Record<string, string> {
  const own: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined && !name.startsWith(VARIABLE_PREFIX)) own[name] = value;
  }
  return own;
}

/** The path of a token file may be shown, though its name looks secret. */
export function withoutPlainOptions(environment: Environment): Environment {
  const plain = new Set<string>(ALL_OPTIONS.filter(({ kind }) => !kind.isSecret).map(({ variable }) => variable));
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !plain.has(name)));
}
