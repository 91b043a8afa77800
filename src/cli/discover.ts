import { readFileSync, statSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { addAbortSignal, type Readable } from "node:stream";
import { type CommandLine, type FlagTypes, readCommandLine, unknownFlags } from "../config/command-line.ts";
import { type Environment, isDirectory, serverEnvironment, withoutPlainOptions } from "../config/load.ts";
import { anyText, describeInvalid, MAX_MS, problemText, type ValueKind, wholeNumber } from "../config/option.ts";
import { OPTIONS } from "../config/options.ts";
import { shorten } from "../json/text.ts";
import { parseJson } from "../json/value.ts";
import { describeError } from "../mcp/errors.ts";
import { isJsonObject, type JsonObject } from "../mcp/message.ts";
import { maskedPlainText, Secrets } from "../observe/redact.ts";
import { readDescriptor, readDescriptorStream, writeDescriptor } from "../policy/descriptor-file.ts";
import {
  buildDescriptor,
  type Descriptor,
  DescriptorError,
  type DescriptorTool,
  formatDescriptor,
  toDescriptorTool,
} from "../policy/descriptor.ts";
import { compareTools, describeDrift, type ToolDrift } from "../policy/drift.ts";
import { DiscoverError, type Listing } from "./listing.ts";
import { type SignalSource, waitForSignal } from "./serve.ts";
import { ExitCode, ProgressLine, type Terminal } from "./terminal.ts";

/** The source of the tools. */
type ToolSource =
  | { readonly kind: "process"; readonly command: string; readonly args: readonly string[]; readonly cwd: string | undefined }
  | { readonly kind: "url"; readonly url: URL; readonly token: string | undefined };

export interface DiscoverOptions {
  readonly source: ToolSource;
  /** The command with which a pod starts the server; empty if only a URL is given. */
  readonly command: string;
  readonly args: readonly string[];
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

export type DiscoverRequest =
  | { readonly kind: "help" }
  | { readonly kind: "wrong"; readonly problems: readonly string[] }
  | { readonly kind: "discover"; readonly options: DiscoverOptions };

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

/** Reads the options of `discover`, from flags before environment variables, and reports all problems at once. */
export function readDiscoverOptions(argv: readonly string[], environment: Environment): DiscoverRequest {
  const commandLine = readCommandLine(argv, FLAG_TYPES);
  const { flags, rest } = commandLine;
  if (flags.has("help") || flags.has("h")) return { kind: "help" };
  const given = new GivenValues(commandLine, environment);
  const { problems } = given;
  // An invalid URL is not shown, because it may contain a password.
  const url = given.flag("url", httpUrl, true);
  const isUrlGiven = flags.has("url");
  const isCommandOnLine = rest.length > 0;
  const command = isCommandOnLine ? rest[0] : given.variable(OPTIONS.command);
  const args = (isCommandOnLine ? rest.slice(1) : given.variable(OPTIONS.args)) ?? [];
  if (!isUrlGiven && (command === undefined || command === "")) {
    problems.push(`no command is given; put it after the options, set ${OPTIONS.command.variable}, or use --url`);
  }
  const service = given.flag("service", anyText);
  const out = given.flag("out", anyText);
  const check = given.flag("check", anyText);
  if (flags.has("out") && flags.has("check"))
    problems.push("--out and --check are both set; use only one of them, since --check writes nothing");
  const path = url === undefined ? given.variable(OPTIONS.path) : url.pathname;
  const timeoutMs = given.flag("timeout-ms", wholeNumber(MAX_MS)) ?? given.variable(OPTIONS.readyTimeoutMs) ?? DEFAULT_TIMEOUT_MS;
  const description = given.flag("description", anyText);
  const image = given.flag("image", anyText);
  const cwd = isUrlGiven ? undefined : given.variable(OPTIONS.cwd);
  if (cwd !== undefined && !isDirectory(cwd)) {
    problems.push(problemText(OPTIONS.cwd.variable, JSON.stringify(cwd), "an existing directory"));
  }
  const token = isUrlGiven ? given.variable(OPTIONS.authToken) : undefined;
  if (problems.length > 0) return { kind: "wrong", problems };
  const source: ToolSource = url === undefined ? { kind: "process", command: command ?? "", args, cwd } : { kind: "url", url, token };
  return {
    kind: "discover",
    options: {
      source,
      command: command ?? "",
      args,
      service,
      description,
      image,
      path: path ?? OPTIONS.path.defaultValue,
      timeoutMs,
      out: out ?? (service === undefined ? undefined : snapshotPath(service)),
      check,
    },
  };
}

/** The flags and variables of `discover`, and the problems with them. */
class GivenValues {
  readonly problems: string[];
  readonly #flags: CommandLine["flags"];
  readonly #environment: Environment;

  constructor({ flags, problems }: CommandLine, environment: Environment) {
    this.#flags = flags;
    this.#environment = environment;
    this.problems = [...problems, ...unknownFlags(flags, Object.keys(FLAG_TYPES), "discover --help")];
  }

  flag<Value>(name: keyof typeof FLAG_TYPES, kind: ValueKind<Value>, isSecret = false): Value | undefined {
    if (!this.#flags.has(name)) return undefined;
    const text = this.#flags.get(name) ?? "";
    const value = text === "" ? undefined : kind.parse(text);
    if (value === undefined) this.problems.push(describeInvalid(`--${name}`, text, { kind, isSecret }));
    return value;
  }

  variable<Value>({ variable: name, kind, isSecret }: Variable<Value>): Value | undefined {
    const text = this.#environment[name] ?? "";
    if (text === "") return undefined;
    const value = kind.parse(text);
    if (value === undefined) this.problems.push(describeInvalid(name, text, { kind, isSecret }));
    return value;
  }
}

interface Variable<Value> {
  readonly variable: string;
  readonly kind: ValueKind<Value>;
  readonly isSecret: boolean;
}

/** Returns the path at which pods look for a service's snapshot. */
function snapshotPath(service: string): string {
  return join(".claw-discovered", `${service.replaceAll(/[/\\:]/g, "-")}.claw-describe.json`);
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

interface CheckResult {
  /** One for each difference: `+ NAME …` new, `- NAME …` missing, `~ NAME: …` changed. Empty if the tools match the descriptor. */
  readonly lines: readonly string[];
  /** The number of tools that differ. */
  readonly driftCount: number;
  /** Other differences from the descriptor. They are not drift, because only tools count. */
  readonly notes: readonly string[];
}

/** Compares a listing with the reviewed descriptor. */
function checkListing(reviewed: Descriptor, { tools }: Listing, options: DiscoverOptions): CheckResult {
  const drifts = compareTools(reviewed.tools, tools);
  return {
    lines: drifts.flatMap((drift) => describeDrift([drift]).map((line) => `${sign(drift)} ${line}`)),
    driftCount: drifts.length,
    notes: findStaleRecords(reviewed, options).map((name) => `the ${name} differs from the one in the descriptor`),
  };
}

function sign({ kinds }: ToolDrift): string {
  return kinds.includes("new") ? "+" : kinds.includes("missing") ? "-" : "~";
}

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
  const { service, description, path, command, args, image } = options;
  return formatDescriptor(
    buildDescriptor({
      service: service ?? "",
      description: description ?? (service === undefined ? "MCP stdio tools." : undefined),
      path,
      tools: tools.map(readTool),
      discovery: { command, args, wrapperImage: image ?? "", discoveredAt, protocolVersion },
    }),
  );
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

interface Output {
  write(text: string, callback?: (error?: Error | null) => void): unknown;
  on(event: "error", listener: () => void): unknown;
}

export interface DiscoverContext {
  readonly environment: Environment;
  readonly version: string;
  /** Opens the input, which is read for `--check -` only. */
  readonly stdin: () => Readable;
  /** The output for the result: a snapshot, differences, or the help. */
  readonly stdout: Output;
  /** The output for people. */
  readonly stderr: Terminal & Output;
  readonly signals: SignalSource & { on(event: "uncaughtException", listener: (error: Error) => void): unknown };
}

/** Lists a server's tools, and writes a descriptor or compares them with one. @returns the exit code. */
export async function discover(argv: readonly string[], context: DiscoverContext): Promise<number> {
  const { environment, stdout, stderr } = context;
  // The callback of each write reports errors of stdout. Errors of stderr are ignored.
  for (const output of [stdout, stderr]) output.on("error", () => undefined);
  const request = readDiscoverOptions(argv, environment);
  if (request.kind === "help") {
    stdout.write(DISCOVER_HELP);
    return ExitCode.ok;
  }
  if (request.kind === "wrong") {
    stderr.write(`claw-mcp-stdio: invalid configuration:\n${request.problems.map((problem) => `  - ${problem}\n`).join("")}`);
    return ExitCode.wrongConfiguration;
  }
  const run = new DiscoverRun(request.options, context);
  try {
    return await run.complete();
  } catch (error) {
    const { redact } = new Secrets(withoutPlainOptions(environment));
    const tail = error instanceof DiscoverError ? error.stderrTail : [];
    stderr.write(`discover failed: ${maskedPlainText(describeError(error), redact)}\n`);
    const lines = tail.map((line) => `  ${maskedPlainText(line, redact)}\n`);
    if (lines.length > 0) stderr.write(`the last lines of the server's stderr:\n${lines.join("")}`);
    if (!(error instanceof DiscoverError || error instanceof DescriptorError))
      stderr.write(`${maskedPlainText(String((error as Error).stack), redact)}\n`);
    return run.signalExitCode ?? ExitCode.failed;
  }
}

class DiscoverRun {
  /** The exit code that a shell reports for the received signal. */
  signalExitCode: number | undefined;
  readonly #options: DiscoverOptions;
  readonly #context: DiscoverContext;
  readonly #ended = new AbortController();
  readonly #kill = new AbortController();

  constructor(options: DiscoverOptions, context: DiscoverContext) {
    this.#options = options;
    this.#context = context;
    const { signals } = context;
    const endBy = (signal: NodeJS.Signals): void => {
      this.signalExitCode = 128 + (constants.signals[signal] ?? 0);
      this.#ended.abort(new DiscoverError(`ended by ${signal}`));
    };
    void waitForSignal(signals, () => this.#kill.abort()).then(endBy);
    // The terminal is closed.
    signals.on("SIGHUP", endBy);
    // The state is unknown after that, so all processes are killed.
    signals.on("uncaughtException", (error) => {
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
    const { lines, driftCount, notes } = checkListing(reviewed, listing, this.#options);
    await this.#print(lines.map((line) => `${line}\n`).join(""));
    for (const note of notes) this.#tell(`note: ${note}`);
    this.#tell(driftCount === 0 ? `${count(listing)}, as in ${nameOf(check)}` : `${driftCount} of the tools differ from ${nameOf(check)}`);
    return driftCount === 0 ? ExitCode.ok : ExitCode.drift;
  }

  /** Reads the descriptor to compare with, from a file or from stdin. */
  async #read(check: string): Promise<Descriptor> {
    if (check !== STDIN) return readDescriptor(check);
    const { signal } = this.#ended;
    try {
      return await readDescriptorStream(addAbortSignal(signal, this.#context.stdin()), nameOf(check));
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
    const { source, timeoutMs } = this.#options;
    const { environment, version, stderr } = this.#context;
    const secrets = new Secrets(withoutPlainOptions(environment));
    let stderrLastLine = (): string | undefined => undefined;
    const subject = source.kind === "url" ? source.url.origin : source.command;
    const lastWords = (): string => maskedPlainText(stderrLastLine() ?? "", secrets.redact);
    const progress = new ProgressLine(stderr, environment, () => `${subject}: waiting for its tools`, lastWords);
    const timer = setTimeout(() => this.#ended.abort(), timeoutMs);
    const bounds = { signal: this.#ended.signal, timeoutMs, clientInfo: { name: "claw-mcp-stdio", version } };
    try {
      if (source.kind === "url") {
        const { listFromUrl } = await import("./discover-url.ts");
        return await listFromUrl({ ...bounds, url: source.url, token: source.token, tokenVariable: OPTIONS.authToken.variable });
      }
      const { listFromProcess } = await import("./discover-process.ts");
      return await listFromProcess({
        ...bounds,
        command: { command: source.command, args: source.args, env: serverEnvironment(environment), cwd: source.cwd },
        secrets,
        kill: this.#kill.signal,
        onStart: (lastLine) => {
          stderrLastLine = lastLine;
        },
      });
    } finally {
      clearTimeout(timer);
      progress.end();
    }
  }

  async #print(text: string): Promise<void> {
    const error = await new Promise<Error | null | undefined>((resolve) => this.#context.stdout.write(text, resolve));
    if (error instanceof Error) throw new DiscoverError(`stdout cannot be written: ${error.message}`);
  }

  #tell(line: string): void {
    this.#context.stderr.write(`${line}\n`);
  }
}

function nameOf(file: string): string {
  return file === STDIN ? "standard input" : file;
}

function count({ tools }: Listing): string {
  return tools.length === 1 ? "1 tool" : `${tools.length} tools`;
}
