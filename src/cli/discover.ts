import { readFileSync, statSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { addAbortSignal } from "node:stream";
import { type FlagTypes, readCommandLine, unknownFlags } from "../config/command-line.ts";
import { type Environment, isDirectory, serverEnvironment, withoutPlainOptions } from "../config/load.ts";
import { anyText, describeInvalid, MAX_MS, type Option, problemText, type ValueKind, wholeNumber } from "../config/option.ts";
import { OPTIONS } from "../config/options.ts";
import { shorten } from "../json/text.ts";
import { parseJson } from "../json/value.ts";
import { describeError } from "../mcp/errors.ts";
import { isJsonObject, type JsonObject } from "../mcp/message.ts";
import { maskedPlainText, Secrets } from "../observe/redact.ts";
import { readDescriptor, readDescriptorStream, writeDescriptor } from "../policy/descriptor-file.ts";
import { type Descriptor, DescriptorError, type DescriptorTool, formatDescriptor, toDescriptorTool } from "../policy/descriptor.ts";
import { compareTools, describeDrift } from "../policy/drift.ts";
import { DiscoverError, type Listing } from "./listing.ts";
import { waitForSignal } from "./serve.ts";
import { ExitCode, ProgressLine } from "./terminal.ts";

export interface DiscoverOptions {
  /** The source of the tools; undefined for a process that COMMAND starts. */
  readonly url: URL | undefined;
  /** Sent to the URL. */
  readonly token: string | undefined;
  /** The command with which a pod starts the server; empty if only a URL is given. */
  readonly command: string;
  readonly args: readonly string[];
  /** The directory of the process. */
  readonly cwd: string | undefined;
  readonly service: string | undefined;
  readonly description: string | undefined;
  /** The wrapper image of the pod. */
  readonly image: string | undefined;
  /** The path of the MCP endpoint for clients of the pod. */
  readonly path: string;
  /** The longest time from the start to the end of the list. */
  readonly timeoutMs: number;
  /** The file to write; undefined for stdout. */
  readonly out: string | undefined;
  /** The descriptor to compare with. If set, nothing is written. */
  readonly check: string | undefined;
}

const FLAG_TYPES = {
  help: { type: "boolean", short: "h" },
  out: { type: "string" },
  service: { type: "string" },
  description: { type: "string" },
  image: { type: "string" },
  "timeout-ms": { type: "string" },
  url: { type: "string" },
  check: { type: "string" },
} as const satisfies FlagTypes;

const DEFAULT_TIMEOUT_MS = 60_000;

const httpUrl: ValueKind<URL> = {
  expected: `an http: or https: URL without credentials; set a token in ${OPTIONS.authToken.variable}`,
  parse: (text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    const isHttp = url?.protocol === "http:" || url?.protocol === "https:";
    return isHttp && url.username === "" && url.password === "" ? url : undefined;
  },
};

/** Reads the options of `discover`, from flags before environment variables. @returns all problems at once if there are any. */
export function readDiscoverOptions(argv: readonly string[], environment: Environment): DiscoverOptions | "help" | string[] {
  const commandLine = readCommandLine(argv, FLAG_TYPES);
  const { flags, rest } = commandLine;
  if (flags.has("help") || flags.has("h")) return "help";
  const problems = [...commandLine.problems, ...unknownFlags(flags, Object.keys(FLAG_TYPES), "discover --help")];
  const read = <Value>(source: string, text: string, kind: ValueKind<Value>, isSecret: boolean): Value | undefined => {
    const value = text === "" ? undefined : kind.parse(text);
    if (value === undefined) problems.push(describeInvalid(source, text, { kind, isSecret }));
    return value;
  };
  const flag = <Value>(name: keyof typeof FLAG_TYPES, kind: ValueKind<Value>, isSecret = false): Value | undefined =>
    flags.has(name) ? read(`--${name}`, flags.get(name) ?? "", kind, isSecret) : undefined;
  const variable = <Value>({ variable: name, kind, isSecret }: Option<Value>): Value | undefined =>
    (environment[name] ?? "") === "" ? undefined : read(name, environment[name] ?? "", kind, isSecret);

  // An invalid URL is not shown, because it may contain a password.
  const url = flag("url", httpUrl, true);
  const isUrlGiven = flags.has("url");
  const command = (rest.length > 0 ? rest[0] : variable(OPTIONS.command)) ?? "";
  const args = (rest.length > 0 ? rest.slice(1) : variable(OPTIONS.args)) ?? [];
  if (!isUrlGiven && command === "") {
    problems.push(`no command is given; put it after the options, set ${OPTIONS.command.variable}, or use --url`);
  }
  const service = flag("service", anyText);
  const out = flag("out", anyText);
  const check = flag("check", anyText);
  if (flags.has("out") && flags.has("check"))
    problems.push("--out and --check are both set; use only one of them, since --check writes nothing");
  const path = (url === undefined ? variable(OPTIONS.path) : url.pathname) ?? OPTIONS.path.defaultValue;
  const timeoutMs = flag("timeout-ms", wholeNumber(MAX_MS)) ?? variable(OPTIONS.readyTimeoutMs) ?? DEFAULT_TIMEOUT_MS;
  const description = flag("description", anyText);
  const image = flag("image", anyText);
  const cwd = isUrlGiven ? undefined : variable(OPTIONS.cwd);
  if (cwd !== undefined && !isDirectory(cwd)) {
    problems.push(problemText(OPTIONS.cwd.variable, JSON.stringify(cwd), "an existing directory"));
  }
  const token = isUrlGiven ? variable(OPTIONS.authToken) : undefined;
  if (problems.length > 0) return problems;
  // The path at which pods look for a service's snapshot.
  const snapshotPath = service && join(".claw-discovered", `${service.replaceAll(/[/\\:]/g, "-")}.claw-describe.json`);
  return { url, token, command, args, cwd, service, description, image, path, timeoutMs, out: out ?? snapshotPath, check };
}

export const DISCOVER_HELP = `claw-mcp-stdio discover: writes the tools of an MCP server to a descriptor, for people to review.

Usage:
  claw-mcp-stdio discover [options] [--] COMMAND [ARG ...]   start the server, list its tools, stop it
  claw-mcp-stdio discover [options]                          the same, with COMMAND and ARGS from the environment
  claw-mcp-stdio discover [options] --url URL                list the tools of a sidecar or other Streamable HTTP server
  claw-mcp-stdio discover --check FILE ...                   write nothing; exit with 3 if the tools differ from FILE

Options:
  --out FILE
      The file to write, which is replaced atomically. It is not changed if only the time differs.
      [default .claw-discovered/SERVICE.claw-describe.json with --service, else stdout]
  --service NAME
      Name of the service in the pod.
  --description TEXT
      The description of the service. [default "NAME MCP stdio tools."]
  --image REF
      The image of the sidecar in the pod. It is only recorded.
  --timeout-ms MS
      Time limit from the start to the last tool. [${OPTIONS.readyTimeoutMs.variable}, default ${DEFAULT_TIMEOUT_MS}]
  --url URL
      The endpoint. The token of ${OPTIONS.authToken.variable} is sent to it. COMMAND is only recorded.
  --check FILE
      The descriptor to compare with; - is standard input. Differences are printed, one per line: + new, - missing, ~ changed.
  -h, --help
      Print this text.

Other variables: ${[OPTIONS.command, OPTIONS.args, OPTIONS.cwd, OPTIONS.path].map(({ variable }) => variable).join(", ")}.

Exit codes: 0 success, or no difference; 1 failure: nothing is written, and the reason and the last lines of the server's
stderr are printed; 2 wrong command line; 3 --check found differences; 128 + n ended by signal n.
`;

/** Returns the records for which a pod takes the snapshot as stale. Values that are not given or not recorded are ignored. */
function findStaleRecords({ "x-claw-discovery": recorded = {} }: Descriptor, { command, args, image }: DiscoverOptions): string[] {
  const isStale = (member: string, current: unknown): boolean =>
    recorded[member] !== undefined && JSON.stringify(recorded[member]) !== JSON.stringify(current);
  const stale: string[] = [];
  if (command !== "" && isStale("command", command)) stale.push("command");
  if (command !== "" && isStale("args", args)) stale.push("list of arguments");
  if (image !== undefined && isStale("wrapper_image", image)) stale.push("wrapper image");
  return stale;
}

/** Returns the text of a listing's descriptor. @throws DiscoverError if a tool cannot be stored in a descriptor. */
function snapshotText({ tools, protocolVersion }: Listing, options: DiscoverOptions, discoveredAt: Date): string {
  const { service, description, path, command, args, image = "" } = options;
  return formatDescriptor({
    version: 2,
    description: description?.trim() || (service === undefined ? "MCP stdio tools." : `${service} MCP stdio tools.`),
    mcp: { transport: "streamable_http", path },
    tools: tools.map(readTool),
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

function readTool(tool: JsonObject): DescriptorTool {
  const read = toDescriptorTool(tool);
  if (read !== undefined) return read;
  const reason = "its description, inputSchema or annotations are of the wrong type, or nested too deeply";
  throw new DiscoverError(`tools/list: ${JSON.stringify(shorten(String(tool["name"])))} cannot be recorded: ${reason}`);
}

/** Returns the `discovered_at` of the file if it differs from the new snapshot only in that. */
function unchangedSince(path: string, textAt: (discoveredAt: Date) => string): string | undefined {
  let text: string;
  let value: unknown;
  try {
    // Reading a named pipe would wait for a writer.
    if (!statSync(path).isFile()) return undefined;
    text = readFileSync(path, "utf8");
    value = parseJson(text);
  } catch {
    // The file is absent or not a descriptor. `writeDescriptor` checks if it can be replaced.
    return undefined;
  }
  const recorded = isJsonObject(value) ? value["x-claw-discovery"] : undefined;
  const at = isJsonObject(recorded) ? String(recorded["discovered_at"]) : "";
  return !Number.isNaN(Date.parse(at)) && textAt(new Date(at)) === text ? at : undefined;
}

/** Means standard input as the file of --check. */
const STDIN = "-";

/** Lists a server's tools, and writes a descriptor or compares them with one. @returns the exit code. */
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
  const run = new DiscoverRun(options, environment, version, secrets);
  try {
    return await run.complete();
  } catch (error) {
    const plain = (text: string): string => maskedPlainText(text, secrets.redact);
    stderr.write(`discover failed: ${plain(describeError(error))}\n`);
    const lines = error instanceof DiscoverError ? error.stderrTail.map((line) => `  ${plain(line)}\n`) : [];
    if (lines.length > 0) stderr.write(`the last lines of the server's stderr:\n${lines.join("")}`);
    if (!(error instanceof DiscoverError || error instanceof DescriptorError)) stderr.write(`${plain(String((error as Error).stack))}\n`);
    return run.signalExitCode ?? ExitCode.failed;
  }
}

class DiscoverRun {
  /** The exit code that a shell reports for the received signal. */
  signalExitCode: number | undefined;
  readonly #options: DiscoverOptions;
  readonly #environment: Environment;
  readonly #version: string;
  readonly #secrets: Secrets;
  readonly #ended = new AbortController();
  readonly #kill = new AbortController();

  constructor(options: DiscoverOptions, environment: Environment, version: string, secrets: Secrets) {
    this.#options = options;
    this.#environment = environment;
    this.#version = version;
    this.#secrets = secrets;
    const endBy = (signal: NodeJS.Signals): void => {
      this.signalExitCode = 128 + (constants.signals[signal] ?? 0);
      this.#ended.abort(new DiscoverError(`ended by ${signal}`));
    };
    void waitForSignal(process, () => this.#kill.abort()).then(endBy);
    // The terminal is closed.
    process.on("SIGHUP", endBy);
    // The state is unknown after that, so all processes are killed.
    process.on("uncaughtException", (error) => {
      this.#kill.abort();
      this.#ended.abort(new DiscoverError(`a defect: ${describeError(error)}`));
    });
  }

  async complete(): Promise<number> {
    const { check } = this.#options;
    // An unreadable descriptor is reported before a server is started.
    const reviewed = check === undefined ? undefined : await this.#read(check);
    const listing = await this.#list();
    // A timeout while the server is being stopped no longer matters, but a signal does.
    const end: unknown = this.#ended.signal.reason;
    if (end instanceof DiscoverError) throw end;
    if (!listing.hasToolsCapability) this.#tell("note: the server does not declare the capability `tools`: its tools were not listed");
    if (check === undefined || reviewed === undefined) return this.#write(listing);
    const drifts = compareTools(reviewed.tools, listing.tools);
    const lines = drifts.flatMap((drift) => {
      const sign = drift.kinds.includes("new") ? "+" : drift.kinds.includes("missing") ? "-" : "~";
      return describeDrift([drift]).map((line) => `${sign} ${line}\n`);
    });
    await this.#print(lines.join(""));
    // They are no drift, because only tools count.
    for (const name of findStaleRecords(reviewed, this.#options)) this.#tell(`note: the ${name} differs from the one in the descriptor`);
    this.#tell(
      drifts.length === 0 ? `${count(listing)}, as in ${nameOf(check)}` : `${drifts.length} of the tools differ from ${nameOf(check)}`,
    );
    return drifts.length === 0 ? ExitCode.ok : ExitCode.drift;
  }

  /** Reads the descriptor to compare with, from a file or from stdin. */
  async #read(check: string): Promise<Descriptor> {
    if (check !== STDIN) return readDescriptor(check);
    const { signal } = this.#ended;
    try {
      return await readDescriptorStream(addAbortSignal(signal, process.stdin), nameOf(check));
    } catch (error) {
      throw signal.reason instanceof DiscoverError ? signal.reason : error;
    }
  }

  async #write(listing: Listing): Promise<number> {
    const { out } = this.#options;
    const textAt = (discoveredAt: Date): string => snapshotText(listing, this.#options, discoveredAt);
    if (out === undefined) {
      await this.#print(textAt(new Date()));
      this.#tell(count(listing));
      return ExitCode.ok;
    }
    const since = unchangedSince(out, textAt);
    if (since !== undefined) {
      this.#tell(`${count(listing)}, unchanged since ${since}: ${out} is not rewritten`);
      return ExitCode.ok;
    }
    writeDescriptor(out, textAt(new Date()));
    this.#tell(`${count(listing)}, written to ${out}`);
    return ExitCode.ok;
  }

  async #list(): Promise<Listing> {
    const { url, token, command, args, cwd, timeoutMs } = this.#options;
    const [environment, secrets] = [this.#environment, this.#secrets];
    let stderrLastLine = (): string | undefined => undefined;
    const subject = url === undefined ? command : url.origin;
    const lastWords = (): string => maskedPlainText(stderrLastLine() ?? "", secrets.redact);
    const progress = new ProgressLine(process.stderr, environment, () => `${subject}: waiting for its tools`, lastWords);
    const timer = setTimeout(() => this.#ended.abort(), timeoutMs);
    const bounds = { signal: this.#ended.signal, timeoutMs, clientInfo: { name: "claw-mcp-stdio", version: this.#version } };
    try {
      if (url !== undefined) {
        const { listFromUrl } = await import("./discover-url.ts");
        return await listFromUrl(bounds, url, token);
      }
      const { listFromProcess } = await import("./discover-process.ts");
      const childCommand = { command, args, env: serverEnvironment(environment), cwd };
      return await listFromProcess(bounds, childCommand, secrets, this.#kill.signal, (lastLine) => {
        stderrLastLine = lastLine;
      });
    } finally {
      clearTimeout(timer);
      progress.end();
    }
  }

  async #print(text: string): Promise<void> {
    const error = await new Promise<Error | null | undefined>((resolve) => process.stdout.write(text, resolve));
    if (error instanceof Error) throw new DiscoverError(`stdout cannot be written: ${error.message}`);
  }

  #tell(line: string): void {
    process.stderr.write(`${line}\n`);
  }
}

function nameOf(file: string): string {
  return file === STDIN ? "standard input" : file;
}

function count({ tools }: Listing): string {
  return tools.length === 1 ? "1 tool" : `${tools.length} tools`;
}
