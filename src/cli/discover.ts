import { readFileSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { addAbortSignal } from "node:stream";
import { flagTypes, readCommandLine, unknownFlags } from "../config/command-line.ts";
import { type Environment, loadConfig, readSettings, withoutPlainOptions } from "../config/load.ts";
import { anyText, flagUsage, milliseconds, named, type Option, option, type ValueKind } from "../config/option.ts";
import { OPTIONS } from "../config/options.ts";
import { describeError } from "../mcp/errors.ts";
import { maskedPlainText, Secrets } from "../observe/redact.ts";
import {
  type Descriptor,
  DescriptorError,
  formatDescriptor,
  readDescriptor,
  readDescriptorStream,
  toDescriptorTool,
  writeDescriptor,
} from "../policy/descriptor.ts";
import { compareTools, describeDrift } from "../policy/drift.ts";
import { DiscoverError, listFromProcess, listFromUrl, type Listing } from "./listing.ts";
import { waitForSignal } from "./serve.ts";
import { ExitCode, showProgress } from "./terminal.ts";

const httpUrl: ValueKind<URL> = {
  placeholder: "URL",
  // It may contain a password.
  isSecret: true,
  expected: `an http: or https: URL without credentials; set a token in ${OPTIONS.authToken.variable}`,
  parse: (text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    const isHttp = url?.protocol === "http:" || url?.protocol === "https:";
    return isHttp && url.username === "" && url.password === "" ? url : undefined;
  },
};

/** They have no variables. */
const DISCOVER_OPTIONS = named({
  out: option(
    anyText("FILE"),
    "The file to write, which is replaced atomically. It is not changed if only the time differs. Default: .claw-discovered/SERVICE.claw-describe.json with --service, else stdout.",
  ),
  service: option(anyText("NAME"), "Name of the service in the pod."),
  description: option(anyText("TEXT"), 'The description of the service. Default: "NAME MCP stdio tools."'),
  image: option(anyText("REF"), "The image of the sidecar in the pod. It is only recorded."),
  timeoutMs: option(milliseconds(), `Time limit from the start to the last tool. Default: ${OPTIONS.readyTimeoutMs.variable}, or 60000.`),
  url: option(httpUrl, `The endpoint. The token of ${OPTIONS.authToken.variable} is sent to it. COMMAND is only recorded.`),
  check: option(
    anyText("FILE"),
    "The descriptor to compare with; - is standard input. Differences are printed, one per line: + new, - missing, ~ changed.",
  ),
});

export type DiscoverOptions = Exclude<ReturnType<typeof readDiscoverOptions>, "help" | string[]>;

/** Options shared with the sidecar are read from variables. With a URL, the command is only recorded. @returns all problems at once. */
export function readDiscoverOptions(argv: readonly string[], environment: Environment) {
  const known = flagTypes(Object.values(DISCOVER_OPTIONS));
  const commandLine = readCommandLine(argv, known);
  const { flags } = commandLine;
  if (flags.has("help")) return "help";
  const { settings, given, problems } = readSettings(DISCOVER_OPTIONS, flags, {});
  problems.unshift(...commandLine.problems, ...unknownFlags(flags, Object.keys(known), "discover --help"));
  if (given.has("out") && given.has("check"))
    problems.push("--out and --check are both set; use only one of them, since --check writes nothing");
  const { config, problems: ofVariables } = loadConfig({ ...commandLine, flags: new Map(), problems: [] }, environment, false);
  problems.push(...ofVariables);
  if (!given.has("url") && (commandLine.rest[0] ?? environment[OPTIONS.command.variable] ?? "") === "") {
    problems.push(`no command is given; put it after the options, set ${OPTIONS.command.variable}, or use --url`);
  }
  if (config === undefined || problems.length > 0) return problems;
  const { service, url, timeoutMs: readyTimeoutMs = config.readyTimeoutMs } = settings;
  // The path at which pods look for a service's snapshot.
  const snapshotPath = service && join(".claw-discovered", `${service.replaceAll(/[/\\:]/g, "-")}.claw-describe.json`);
  return { ...config, ...settings, readyTimeoutMs, path: url?.pathname ?? config.path, out: settings.out ?? snapshotPath };
}

export const DISCOVER_HELP = `claw-mcp-stdio discover: writes the tools of an MCP server to a descriptor, for people to review.

Usage:
  claw-mcp-stdio discover [options] [--] COMMAND [ARG ...]   start the server, list its tools, stop it
  claw-mcp-stdio discover [options]                          the same, with COMMAND and ARGS from the environment
  claw-mcp-stdio discover [options] --url URL                list the tools of a sidecar or other Streamable HTTP server
  claw-mcp-stdio discover --check FILE ...                   write nothing; exit with 3 if the tools differ from FILE

Options:
${Object.values<Option<unknown>>(DISCOVER_OPTIONS)
  .map((each) => `  ${flagUsage(each)}\n      ${each.description}\n`)
  .join("")}  -h, --help
      Print this text.

Other variables: ${[OPTIONS.command, OPTIONS.args, OPTIONS.cwd, OPTIONS.path].map(({ variable }) => variable).join(", ")}.

Exit codes: 0 success, or no difference; 1 failure: nothing is written, and the reason and the last lines of the server's
stderr are printed; 2 wrong command line; 3 --check found differences; 128 + n ended by signal n.
`;

/** @throws DescriptorError if a tool cannot be stored. */
function snapshotText({ tools, protocolVersion }: Listing, options: DiscoverOptions, discoveredAt: Date): string {
  const { service, description, path, command, args, image = "" } = options;
  return formatDescriptor({
    version: 2,
    description: description?.trim() || (service === undefined ? "MCP stdio tools." : `${service} MCP stdio tools.`),
    mcp: { transport: "streamable_http", path },
    tools: tools.map((tool, index) => toDescriptorTool(tool, `tool ${index + 1} of tools/list`)),
    "x-claw-discovery": {
      command,
      args,
      wrapper_image: image,
      discovered_at: discoveredAt.toISOString().replace(/\.\d+Z$/, "Z"),
      mcp_protocol_version: protocolVersion,
      tool_count: tools.length,
    },
  });
}

/** Only if nothing else differs from the new snapshot. */
function unchangedSince(path: string, textAt: (discoveredAt: Date) => string): string | undefined {
  try {
    const at = String(readDescriptor(path)["x-claw-discovery"]?.["discovered_at"]);
    return !Number.isNaN(Date.parse(at)) && textAt(new Date(at)) === readFileSync(path, "utf8") ? at : undefined;
  } catch {
    // `writeDescriptor` checks if the file can be replaced.
    return undefined;
  }
}

/** @returns the exit code. */
export async function discover(argv: readonly string[], environment: Environment, version: string): Promise<number> {
  const { stdout, stderr } = process;
  // The callback of each write reports errors of stdout. Errors of stderr are ignored.
  for (const output of [stdout, stderr]) output.on("error", () => undefined);
  const options = readDiscoverOptions(argv, environment);
  if (options === "help") {
    stdout.write(DISCOVER_HELP);
    return ExitCode.ok;
  }
  if (Array.isArray(options)) {
    stderr.write(`claw-mcp-stdio: invalid configuration:\n${options.map((problem) => `  - ${problem}\n`).join("")}`);
    return ExitCode.wrongConfiguration;
  }
  const secrets = new Secrets(withoutPlainOptions(environment));
  const ended = new AbortController();
  const kill = new AbortController();
  let failedCode: number = ExitCode.failed;
  const endBy = (signal: NodeJS.Signals): void => {
    // The code that a shell reports for the signal.
    failedCode = 128 + (constants.signals[signal] ?? 0);
    ended.abort(new DiscoverError(`ended by ${signal}`));
  };
  void waitForSignal(process, () => kill.abort()).then(endBy);
  // The state is unknown after a defect, so all processes are killed.
  process.on("uncaughtException", (error) => {
    kill.abort();
    ended.abort(new DiscoverError(`a defect: ${describeError(error)}`));
  });
  try {
    // An unreadable descriptor is reported before a server is started.
    const reviewed = options.check === undefined ? undefined : await readReviewed(options.check, ended.signal);
    const listing = await list(options, environment, version, secrets, ended.signal, kill.signal);
    // A timeout while the server is being stopped no longer matters, but a signal does.
    ended.signal.throwIfAborted();
    if (!listing.hasToolsCapability) tell("note: the server does not declare the capability `tools`: its tools were not listed");
    return await (reviewed === undefined ? write(listing, options) : compare(listing, reviewed, options));
  } catch (error) {
    const plain = (text: string): string => maskedPlainText(text, secrets.redact);
    tell(`discover failed: ${plain(describeError(error))}`);
    const lines = error instanceof DiscoverError ? error.stderrTail.map((line) => `  ${plain(line)}\n`) : [];
    if (lines.length > 0) stderr.write(`the last lines of the server's stderr:\n${lines.join("")}`);
    if (!(error instanceof DiscoverError || error instanceof DescriptorError)) tell(plain(String((error as Error).stack)));
    return failedCode;
  }
}

async function list(
  options: DiscoverOptions,
  environment: Environment,
  version: string,
  secrets: Secrets,
  ended: AbortSignal,
  kill: AbortSignal,
): Promise<Listing> {
  const { url, authToken, command, readyTimeoutMs } = options;
  let stderrLastLine = "";
  const { stderr } = process;
  const progress = showProgress(stderr, stderr.write.bind(stderr), environment, () => [
    `${url === undefined ? command : url.origin}: waiting for its tools`,
    maskedPlainText(stderrLastLine, secrets.redact),
  ]);
  const clientInfo = { name: "claw-mcp-stdio", version };
  try {
    if (url !== undefined) return await listFromUrl(url, authToken, readyTimeoutMs, clientInfo, ended);
    return await listFromProcess(options, environment, clientInfo, secrets, ended, kill, (line) => {
      stderrLastLine = line;
    });
  } finally {
    progress.end();
  }
}

const STDIN = "-";

async function readReviewed(check: string, ended: AbortSignal): Promise<Descriptor> {
  if (check !== STDIN) return readDescriptor(check);
  try {
    return await readDescriptorStream(addAbortSignal(ended, process.stdin), nameOf(check));
  } catch (error) {
    ended.throwIfAborted();
    throw error;
  }
}

async function compare(listing: Listing, reviewed: Descriptor, { check = "", command, args, image }: DiscoverOptions): Promise<number> {
  const drifts = compareTools(reviewed.tools, listing.tools);
  const lines = drifts.flatMap((drift) => {
    const sign = drift.kinds.includes("new") ? "+" : drift.kinds.includes("missing") ? "-" : "~";
    return describeDrift(drift).map((line) => `${sign} ${line}\n`);
  });
  await print(lines.join(""));
  // A pod takes the snapshot as stale for these. They are no drift: only tools count.
  const recorded = reviewed["x-claw-discovery"] ?? {};
  for (const [name, member, current] of [
    ["command", "command", command === "" ? undefined : command],
    ["list of arguments", "args", command === "" ? undefined : args],
    ["wrapper image", "wrapper_image", image],
  ] as const) {
    const isStale = current !== undefined && recorded[member] !== undefined && JSON.stringify(recorded[member]) !== JSON.stringify(current);
    if (isStale) tell(`note: the ${name} differs from the one in the descriptor`);
  }
  tell(drifts.length === 0 ? `${count(listing)}, as in ${nameOf(check)}` : `${drifts.length} of the tools differ from ${nameOf(check)}`);
  return drifts.length === 0 ? ExitCode.ok : ExitCode.drift;
}

async function write(listing: Listing, options: DiscoverOptions): Promise<number> {
  const { out } = options;
  const textAt = (discoveredAt: Date): string => snapshotText(listing, options, discoveredAt);
  const since = out === undefined ? undefined : unchangedSince(out, textAt);
  if (out === undefined) {
    await print(textAt(new Date()));
    tell(count(listing));
  } else if (since !== undefined) tell(`${count(listing)}, unchanged since ${since}: ${out} is not rewritten`);
  else {
    writeDescriptor(out, textAt(new Date()));
    tell(`${count(listing)}, written to ${out}`);
  }
  return ExitCode.ok;
}

async function print(text: string): Promise<void> {
  const error = await new Promise<Error | null | undefined>((resolve) => process.stdout.write(text, resolve));
  if (error instanceof Error) throw new DiscoverError(`stdout cannot be written: ${error.message}`);
}

function tell(line: string): void {
  process.stderr.write(`${line}\n`);
}

function nameOf(file: string): string {
  return file === STDIN ? "standard input" : file;
}

function count({ tools }: Listing): string {
  return tools.length === 1 ? "1 tool" : `${tools.length} tools`;
}
