import { constants } from "node:os";
import { addAbortSignal, type Readable } from "node:stream";
import type { Environment } from "../../config/load.ts";
import { OPTIONS } from "../../config/options.ts";
import { serverEnvironment, withoutPlainOptions } from "../../config/environment.ts";
import { type Descriptor, DescriptorError } from "../../descriptor/descriptor.ts";
import { readDescriptor, readDescriptorStream, writeDescriptor } from "../../descriptor/descriptor-file.ts";
import { describeError } from "../../errors.ts";
import { ExitCode } from "../exit-code.ts";
import { maskedPlainText, Secrets } from "../../observability/redact.ts";
import { type SignalSource, waitForSignal } from "../shutdown.ts";
import { checkListing } from "./check.ts";
import { DiscoverError, type Listing } from "./listing.ts";
import { DISCOVER_HELP, type DiscoverOptions, readDiscoverOptions } from "./options.ts";
import { snapshotText, unchangedSince } from "./snapshot.ts";
import { ProgressLine, type Terminal } from "../terminal.ts";

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
        const { listFromUrl } = await import("./url.ts");
        return await listFromUrl({ ...bounds, url: source.url, token: source.token, tokenVariable: OPTIONS.authToken.variable });
      }
      const { listFromProcess } = await import("./process.ts");
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
