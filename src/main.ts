#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { totalmem } from "node:os";
import { ExitCode } from "./cli/terminal.ts";
import { readCommandLine } from "./config/command-line.ts";
import { loadConfig, withoutPlainOptions } from "./config/load.ts";
import { VARIABLE_PREFIX } from "./config/option.ts";
import { OPTIONS } from "./config/options.ts";
import { describeError } from "./mcp/errors.ts";
import { Secrets } from "./observe/redact.ts";
import type { Descriptor } from "./policy/descriptor.ts";

const MEBIBYTE = 2 ** 20;
/** A larger one costs memory and longer pauses, and makes no more calls per second. */
const SEMI_SPACE_MIB = 8;
/** In a small container, garbage is collected, and buffers are freed, only when a semi-space is full. */
const SEMI_SPACES_IN_CONTAINER = 64;
/** Else the kernel would end the sidecar before V8 collects its garbage. */
const OLD_SPACES_IN_CONTAINER = 2;

/**
 * V8 reads the flags before any code runs. Sizes that the operator has chosen are kept.
 *
 * @param constrainedBytes the memory limit of the container; without one, 0 or a number beyond any machine's memory.
 */
export function missingNodeFlags(
  execArgv: readonly string[],
  nodeOptions: string | undefined,
  constrainedBytes: number,
  machineBytes: number,
): string[] {
  // V8 accepts underscores as well.
  const chosen = [...execArgv, nodeOptions ?? ""].join(" ").replaceAll("_", "-");
  const isConstrained = constrainedBytes > 0 && constrainedBytes < machineBytes;
  const containerMib = isConstrained ? constrainedBytes / MEBIBYTE : Infinity;
  // V8 takes 0 for its own default.
  const wholeMib = (mib: number): number => Math.max(1, Math.floor(mib));
  const flags: string[] = [];
  if (!chosen.includes("--max-semi-space-size")) {
    flags.push(`--max-semi-space-size=${wholeMib(Math.min(SEMI_SPACE_MIB, containerMib / SEMI_SPACES_IN_CONTAINER))}`);
  }
  // `--max-old-space-size-percentage` counts as chosen. Node 22 does not know it, and without a container it raises V8's own limit.
  if (isConstrained && !chosen.includes("--max-old-space-size")) {
    flags.push(`--max-old-space-size=${wholeMib(containerMib / OLD_SPACES_IN_CONTAINER)}`);
  }
  return flags;
}

const { version, engines } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
  version: string;
  engines: { node: string };
};

/** Any other first word means `serve`. */
const COMMANDS: ReadonlyMap<string, (argv: readonly string[]) => Promise<number>> = new Map([
  ["serve", runServe],
  ["discover", runDiscover],
  ["help", runHelp],
  ["version", runVersion],
  ["healthcheck", runHealthcheck],
  ["-healthcheck", runHealthcheck],
  ["--healthcheck", runHealthcheck],
]);

// Without a listener for this signal, Node opens its inspector on loopback. The server could send it, but it starts later.
process.on("SIGUSR1", () => undefined);
// Express parses a client's URL with `url.parse()`. Of an invalid one, Node 22 and 24 would warn on stderr, with the URL unmasked.
process.noDeprecation = true;
process.exitCode = await main(process.argv.slice(2));

async function main(argv: readonly string[]): Promise<number> {
  // The range in `engines` of package.json. Older versions lack `worker.cpuUsage()`, which the argument check needs.
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const isSupported = major === 22 ? minor >= 19 : major === 24 ? minor >= 6 : major > 24;
  if (!isSupported) {
    const remedy = "Install such a Node. A clone has one after npm ci: npx node dist/main.js";
    process.stderr.write(`claw-mcp-stdio needs Node ${engines.node}; this is ${process.versions.node}. ${remedy}\n`);
    return 1;
  }
  const [first = "", ...rest] = argv;
  const command = COMMANDS.get(first);
  return command === undefined ? runServe(argv) : command(rest);
}

async function runServe(argv: readonly string[]): Promise<number> {
  if (argv.length === 0 && !Object.keys(process.env).some((name) => name.startsWith(VARIABLE_PREFIX))) {
    const { usageText } = await import("./cli/help.ts");
    process.stderr.write(usageText());
    return ExitCode.wrongConfiguration;
  }
  const configuration = await configure(argv, true);
  if (typeof configuration === "number") return configuration;
  restartWithFlags();
  const { serve } = await import("./cli/serve.ts");
  const commands = [...COMMANDS.keys()];
  const { env: environment, stdout, stderr, pid, ppid } = process;
  // A person has started the program on a terminal. In a container, it is process 1, or the child of an init process such as tini.
  const personalStderr = stderr.isTTY && pid !== 1 && ppid !== 1 ? stderr : undefined;
  await serve({ ...configuration, environment, version, commands, stdout, personalStderr, signals: process, exit });
  return ExitCode.ok;
}

/** The id of the process, its environment and its streams stay. */
function restartWithFlags(): void {
  const { execArgv, execPath, argv, env } = process;
  const flags = missingNodeFlags(execArgv, env["NODE_OPTIONS"], process.constrainedMemory(), totalmem());
  if (flags.length === 0) return;
  try {
    // Absent on Windows.
    process.execve?.(execPath, [execPath, ...execArgv, ...flags, ...argv.slice(1)], env);
  } catch {
    // Node's permission model forbids it. The flags only save memory.
  }
}

async function runHealthcheck(argv: readonly string[]): Promise<number> {
  const configuration = await configure(argv, false);
  // A container's HEALTHCHECK allows only 0 and 1.
  if (typeof configuration === "number") return configuration === ExitCode.ok ? ExitCode.ok : ExitCode.failed;
  const { healthcheck, runningAddress } = await import("./cli/healthcheck.ts");
  const { flags } = readCommandLine(argv);
  const isAddressGiven = ["addr", "host", "port"].some((flag) => flags.has(flag));
  // In a container, the sidecar may have its address from flags, which this command does not get.
  const running = isAddressGiven ? undefined : runningAddress(process.argv[1] ?? "", process.env);
  const { exitCode, text } = await healthcheck(running ?? configuration.config);
  print(`${text}\n`);
  return exitCode;
}

async function runDiscover(argv: readonly string[]): Promise<number> {
  const { discover } = await import("./cli/discover.ts");
  return discover(argv, process.env, version);
}

async function runHelp([topic = ""]: readonly string[]): Promise<number> {
  if (topic === "discover") return runDiscover(["--help"]);
  const [{ helpText }, { columnsOf }] = await Promise.all([import("./cli/help.ts"), import("./cli/terminal.ts")]);
  const { stdout } = process;
  print(helpText(stdout.isTTY ? columnsOf(stdout) : undefined, topic === "all"));
  return ExitCode.ok;
}

function runVersion(): Promise<number> {
  print(`${version}\n`);
  return Promise.resolve(ExitCode.ok);
}

/** Or handles --help, --version or --check-config. @returns the exit code if the process is done. */
async function configure(argv: readonly string[], isForServing: boolean) {
  const commandLine = readCommandLine(argv);
  const { flags } = commandLine;
  if (flags.has("help")) return runHelp([flags.get("help") ?? ""]);
  if (flags.has("version")) return runVersion();
  const form = flags.get("check-config");
  const secrets = new Secrets(withoutPlainOptions(process.env));
  secrets.add([flags.get("auth-token") ?? "", ...(flags.get("session-key") ?? "").split(",")]);
  const { config, problems: ofOptions, given, ...warnings } = loadConfig(commandLine, process.env, isForServing);
  const problems = [...(form === undefined || form === "json" ? [] : ["--check-config takes no value, or json"]), ...ofOptions];
  // If a server is started, the log has them.
  const printWarnings = (): void => {
    const { unknownVariables, flagsAfterCommand } = warnings;
    for (const name of unknownVariables) process.stderr.write(`claw-mcp-stdio: unknown variable: most likely misspelled: ${name}\n`);
    for (const text of flagsAfterCommand) process.stderr.write(`claw-mcp-stdio: flag after the command goes to the server: ${text}\n`);
  };
  // The descriptor is read before the start, so that its problem is reported together with those of the configuration.
  const file = flags.get("descriptor") ?? process.env[OPTIONS.descriptor.variable] ?? "";
  let descriptor: Descriptor | undefined;
  if (isForServing && file !== "") {
    const { readDescriptor } = await import("./policy/descriptor.ts");
    try {
      descriptor = readDescriptor(file);
    } catch (error) {
      problems.push(`${flags.has("descriptor") ? "--descriptor" : OPTIONS.descriptor.variable}: ${describeError(error)}`);
    }
  }
  if (config === undefined || problems.length > 0) {
    process.stderr.write(`claw-mcp-stdio: invalid configuration:\n${problems.map((line) => `  - ${secrets.redact(line)}\n`).join("")}`);
    printWarnings();
    return ExitCode.wrongConfiguration;
  }
  secrets.add([...config.authTokens, ...config.sessionKeys]);
  if (flags.has("check-config")) {
    const { effectiveConfigJson, effectiveConfigText } = await import("./cli/check-config.ts");
    print(form === "json" ? `${effectiveConfigJson(config, secrets)}\n` : effectiveConfigText(config, given, secrets));
    printWarnings();
    return warnings.unknownVariables.length === 0 ? ExitCode.ok : ExitCode.wrongConfiguration;
  }
  return { config, secrets, descriptor, given, ...warnings };
}

/** EPIPE is not a failure: a reader such as `head` may exit early. */
function print(text: string): void {
  process.stdout.on("error", ({ code, message }: NodeJS.ErrnoException) => {
    if (code === "EPIPE") return;
    process.stderr.write(`claw-mcp-stdio: stdout cannot be written: ${message}\n`);
    process.exitCode = ExitCode.failed;
  });
  process.stdout.write(text);
}

function exit(exitCode: number, isLogStuck: boolean): void {
  // `process.exit` would wait for a write that is not being read.
  if (isLogStuck) {
    process.kill(process.pid, "SIGKILL");
    // Process 1 survives that: the kernel ignores it.
    process.abort();
  }
  process.exit(exitCode);
}
