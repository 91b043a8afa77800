import { statSync } from "node:fs";
import { parseArgs } from "node:util";
import { isSamePath, LEGACY_PATHS } from "../routes.ts";
import { readAuthTokenFile } from "./auth-token-file.ts";
import { type Option, VARIABLE_PREFIX } from "./option.ts";
import { OPTIONS, type OptionKey, type OptionValue } from "./options.ts";
import { shownValue } from "./value-kinds.ts";

/** The effective configuration. */
export interface Config {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string | undefined;
  readonly readyTimeoutMs: number;
  readonly host: string | undefined;
  readonly port: number;
  readonly path: string;
  readonly authToken: string | undefined;
  readonly authTokenFile: string | undefined;
  /** Any of them will do: the one, or those of the file as it was at the start. None: no token is asked for. */
  readonly authTokens: readonly string[];
  readonly requireAuth: boolean;
  readonly allowedOrigins: OptionValue<"allowedOrigins"> | undefined;
  readonly allowedHosts: OptionValue<"allowedHosts"> | undefined;
  readonly legacySse: OptionValue<"legacySse">;
  readonly requestTimeoutMs: number;
  readonly streamAfterMs: number;
  readonly keepAliveMs: number;
  readonly headersTimeoutMs: number;
  readonly bodyTimeoutMs: number;
  readonly readerTimeoutMs: number;
  readonly isolation: OptionValue<"isolation">;
  readonly sessionsPerMinute: number | undefined;
  readonly maxPrivateServers: number;
  readonly sessionIdleTimeoutMs: number;
  readonly restartBackoffMs: number;
  readonly restartMaxMs: number;
  readonly holdTimeoutMs: number;
  readonly drainTimeoutMs: number;
  readonly crashLoopExits: number;
  readonly crashLoopPeriodMs: number;
  readonly restartLimit: number | undefined;
  readonly pingIntervalMs: number | undefined;
  readonly hungTimeouts: number;
  readonly retry: OptionValue<"retry">;
  readonly allowTools: OptionValue<"allowTools"> | undefined;
  readonly denyTools: OptionValue<"denyTools"> | undefined;
  readonly readOnly: boolean;
  readonly descriptor: string | undefined;
  readonly descriptorMode: OptionValue<"descriptorMode">;
  readonly argumentCheck: OptionValue<"argumentCheck">;
  readonly toolTimeoutsMs: OptionValue<"toolTimeoutsMs"> | undefined;
  readonly toolConcurrency: OptionValue<"toolConcurrency"> | undefined;
  readonly toolCallsPerMinute: OptionValue<"toolCallsPerMinute"> | undefined;
  readonly sessionCallsPerMinute: number | undefined;
  readonly maxResultBytes: number | undefined;
  readonly maxBodyBytes: number;
  readonly maxLineBytes: number;
  readonly maxSessions: number;
  readonly maxInFlight: number;
  readonly maxSessionRequests: number;
  readonly maxHeldRequests: number;
  readonly maxQueuedBytes: number;
  readonly replayMaxBytes: number;
  readonly replayMaxAgeMs: number;
  readonly replayMaxEvents: number;
  readonly logLevel: OptionValue<"logLevel">;
}

export type Environment = Readonly<Record<string, string | undefined>>;

export interface CommandLine {
  /** The flags in front of the command, by name, as given; a flag without a value is undefined. */
  readonly flags: ReadonlyMap<string, string | undefined>;
  /** The command and its arguments. */
  readonly rest: readonly string[];
}

export interface LoadResult {
  /** Undefined when there are problems. */
  readonly config: Config | undefined;
  /** Each names the option, the value got, and what is allowed. */
  readonly problems: readonly string[];
  /** Variables with our prefix that mean nothing: most likely misspelled. */
  readonly unknownVariables: readonly string[];
}

const BOOLEAN_FLAGS = ["help", "version", "check-config"];

/** What a flag takes: a value of its own, or none. */
export type FlagTypes = Readonly<Record<string, { readonly type: "string" | "boolean"; readonly short?: string }>>;

function serveFlagTypes(): FlagTypes {
  const types: Record<string, FlagTypes[string]> = { help: { type: "boolean", short: "h" } };
  for (const flag of BOOLEAN_FLAGS) types[flag] ??= { type: "boolean" };
  for (const { flag, isSwitch } of Object.values(OPTIONS)) {
    if (flag !== undefined) types[flag] = { type: isSwitch ? "boolean" : "string" };
  }
  return types;
}

/** Splits the command line at the first word that is no option, or at `--`: what follows is the server's. */
export function readCommandLine(argv: readonly string[], options: FlagTypes = serveFlagTypes()): CommandLine {
  const { tokens } = parseArgs({ args: [...argv], options, strict: false, allowPositionals: true, tokens: true });
  const flags = new Map<string, string | undefined>();
  for (const token of tokens) {
    if (token.kind === "positional") return { flags, rest: argv.slice(token.index) };
    if (token.kind === "option-terminator") return { flags, rest: argv.slice(token.index + 1) };
    // An option that swallowed the next one has no value of its own.
    const isSwallowed = token.value?.startsWith("-") === true && !token.inlineValue;
    const isSwitch = options[token.name]?.type === "boolean" && !BOOLEAN_FLAGS.includes(token.name);
    flags.set(token.name, isSwallowed ? undefined : (token.value ?? (isSwitch ? "on" : undefined)));
  }
  return { flags, rest: [] };
}

/** Reads all options, flags before environment, and reports every problem at once. */
export function loadConfig(commandLine: CommandLine, environment: Environment, needsCommand = true): LoadResult {
  const problems: string[] = [];
  const { flags, rest } = commandLine;
  const known = new Set<string>(BOOLEAN_FLAGS);
  for (const { flag } of Object.values(OPTIONS)) if (flag !== undefined) known.add(flag);
  for (const name of flags.keys()) if (!known.has(name)) problems.push(`--${name}: no such option; see --help`);

  /** Where an option was given, and as what; an empty variable is one that a compose file passed on without having it. */
  function given(key: OptionKey): { readonly source: string; readonly text: string } | undefined {
    const { flag, variable }: Option<unknown> = OPTIONS[key];
    if (flag !== undefined && flags.has(flag)) return { source: `--${flag}`, text: flags.get(flag) ?? "" };
    const text = environment[variable] ?? "";
    return text === "" ? undefined : { source: variable, text };
  }

  function read<Key extends OptionKey>(key: Key): OptionValue<Key> | undefined {
    const option: Option<unknown> = OPTIONS[key];
    const { source, text } = given(key) ?? { source: option.variable, text: option.defaultText };
    if (text === undefined) return undefined;
    const value = text === "" ? undefined : option.kind.parse(text);
    if (value !== undefined) return value as OptionValue<Key>;
    problems.push(`${source}: got ${shownValue(text, option)}, allowed is ${option.kind.allowed}`);
    return undefined;
  }

  /** Only who serves asks for them. */
  function readAuthTokens(): readonly string[] {
    const { authToken, authTokenFile, requireAuth } = values;
    const fileSource = given("authTokenFile")?.source ?? "";
    if (given("authToken") !== undefined && given("authTokenFile") !== undefined) {
      problems.push(`${fileSource}: got a file, allowed is nothing where ${given("authToken")?.source} is set`);
    } else if (authTokenFile !== undefined) {
      const { tokens, problem } = readAuthTokenFile(authTokenFile);
      if (tokens !== undefined) return tokens;
      // A token may have been given in place of a path.
      const shown = /^[.~]*\//.test(authTokenFile) ? JSON.stringify(authTokenFile) : "a value (not shown)";
      problems.push(`${fileSource}: got ${shown}, allowed is a file with a token a line: ${problem}`);
    } else if (requireAuth === true && given("authToken") === undefined && given("authTokenFile") === undefined) {
      const needed = `${OPTIONS.authToken.variable} nor ${OPTIONS.authTokenFile.variable}`;
      problems.push(`${given("requireAuth")?.source}: got on, allowed is off where neither ${needed} is set`);
    }
    return authToken === undefined ? [] : [authToken];
  }

  const values = Object.fromEntries((Object.keys(OPTIONS) as OptionKey[]).map((key) => [key, read(key)])) as {
    [Key in OptionKey]: OptionValue<Key> | undefined;
  };
  const isCommandOnLine = rest.length > 0;
  const command = isCommandOnLine ? rest[0] : values.command;
  const args = isCommandOnLine ? rest.slice(1) : (values.args ?? []);
  if (needsCommand && (command === undefined || command === "")) {
    problems.push(
      `${OPTIONS.command.variable}: got nothing, allowed is the executable to run; or give the command behind the options: -- npx -y some-mcp`,
    );
  }
  if (values.cwd !== undefined && !isDirectory(values.cwd)) {
    problems.push(`${given("cwd")?.source}: got ${JSON.stringify(values.cwd)}, allowed is an existing directory`);
  }
  if (values.legacySse === "on" && isSamePath(values.path ?? "", LEGACY_PATHS)) {
    const allowed = `any path but ${LEGACY_PATHS.join(" and ")}, which LEGACY_SSE has`;
    problems.push(`${given("path")?.source}: got ${JSON.stringify(values.path)}, allowed is ${allowed}`);
  }
  const authTokens = needsCommand ? readAuthTokens() : [];
  const { restartBackoffMs: first = 0, restartMaxMs: longest = 0 } = values;
  const firstGiven = given("restartBackoffMs");
  if (firstGiven !== undefined && given("restartMaxMs") !== undefined && longest > 0 && first > longest) {
    problems.push(`${firstGiven.source}: got ${first}, allowed is at most RESTART_MAX_MS (${longest})`);
  }
  const knownVariables = new Set<string>(Object.values(OPTIONS).map(({ variable }) => variable));
  const unknownVariables = Object.keys(environment).filter((name) => name.startsWith(VARIABLE_PREFIX) && !knownVariables.has(name));
  if (problems.length > 0) return { config: undefined, problems, unknownVariables };
  const { addr, port, ...direct } = values as { [Key in OptionKey]: OptionValue<Key> };
  // ADDR wins over PORT; but a flag wins over any variable, and then the port is the flag's.
  const isPortFromFlag = flags.has("port") && !flags.has("addr");
  const isAddressGiven = given("addr") !== undefined;
  const config: Config = {
    ...direct,
    authTokens,
    command: command ?? "",
    args,
    host: isAddressGiven ? addr.host : undefined,
    port: isPortFromFlag || !isAddressGiven ? port : addr.port,
    // Where only one of the two pauses is given, the other's default gives way.
    restartBackoffMs: firstGiven === undefined ? Math.min(first, longest) : first,
    restartMaxMs: firstGiven === undefined ? longest : Math.max(first, longest),
  };
  return { config, problems, unknownVariables };
}

export function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}
