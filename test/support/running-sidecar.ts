import { Changes } from "./changes.ts";
import { type ClientOptions, McpClient } from "./mcp-client.ts";
import { ModernClient, type ModernClientOptions } from "./modern-client.ts";

export type LogLine = Readonly<Record<string, unknown>> & { readonly msg: string };

export interface StartOptions {
  /** The fixture's mode and arguments; ignored if a command is given. */
  readonly mode?: string;
  readonly fixtureArgs?: readonly string[];
  readonly command?: readonly string[];
  readonly flags?: readonly string[];
  /** `127.0.0.1:0`, a free port, by default. */
  readonly address?: string;
  /** Added to the environment of the test. */
  readonly env?: Readonly<Record<string, string>>;
  /** false: return as soon as it listens. */
  readonly untilReady?: boolean;
}

/** A sidecar that serves, with its log. Its subclasses are a process (`Sidecar`) and a sidecar in the test's process (`HttpBench`). */
export abstract class RunningSidecar implements AsyncDisposable {
  readonly logLines: LogLine[] = [];
  readonly #changes = new Changes();
  #address = "";

  /** Resolves with the exit code when it has exited and its whole output has been read. */
  abstract readonly ended: Promise<number | null>;

  abstract kill(signal?: NodeJS.Signals): void;

  /** Sends a signal. @returns the exit code, when the log has been read too. */
  stop(signal: NodeJS.Signals = "SIGTERM"): Promise<number | null> {
    this.kill(signal);
    return this.ended;
  }

  abstract [Symbol.asyncDispose](): Promise<void>;

  protected addLogLine(line: string): void {
    this.logLines.push(JSON.parse(line) as LogLine);
    this.#changes.notify();
  }

  protected async waitForStart(untilReady: boolean): Promise<void> {
    try {
      const listening = await this.waitForLog("listening");
      this.#address = String(listening["address"]);
      if (untilReady) await this.waitForLog("mcp server ready");
    } catch (error) {
      await this[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** The process ids of all servers that were started, each the leader of its group. */
  protected get serverPids(): number[] {
    const isStart = ({ msg }: LogLine): boolean => msg === "mcp server started" || msg === "mcp server ready";
    return [...new Set(this.logLines.filter(isStart).map(({ childPid }) => Number(childPid)))];
  }

  get address(): string {
    return this.#address;
  }

  get origin(): string {
    return `http://${this.address}`;
  }

  get url(): string {
    return `${this.origin}/mcp`;
  }

  /** The process of the MCP server that was started last. */
  get childPid(): number {
    // Starts that fail alike are not logged as started.
    return Number(this.logLines.findLast(({ msg }) => msg === "mcp server started" || msg === "mcp server ready")?.["childPid"]);
  }

  /** Waits for the process of a server other than the given one, since the log may be read later than a response. */
  async waitForChild(otherPid: number): Promise<number> {
    const { childPid } = await this.waitForLog("mcp server started", (line) => line["childPid"] !== otherPid);
    return Number(childPid);
  }

  client(options: ClientOptions = {}): Promise<McpClient> {
    return new McpClient(this.url, options).open();
  }

  modernClient(options: ModernClientOptions = {}): ModernClient {
    return new ModernClient(this.url, options);
  }

  /** Returns the first log line, past or future, with this message that the predicate accepts. */
  async waitForLog(message: string, accepts: (line: LogLine) => boolean = () => true): Promise<LogLine> {
    const find = (): LogLine | undefined => this.logLines.find((line) => line.msg === message && accepts(line));
    return this.waitFor(find, `the log line "${message}"`);
  }

  /** Calls `find` again at each new log line until it returns a value. */
  async waitFor<Found>(find: () => Found | undefined, what: string): Promise<Found> {
    let exit: string | undefined;
    void this.ended.then((code) =>
      setImmediate(() => {
        exit = `exit ${code}`;
        this.#changes.notify();
      }),
    );
    const look = (): Found | undefined => {
      const found = find();
      if (found === undefined && exit !== undefined) throw new Error(`${exit} before ${what}:\n${this.transcript()}`);
      return found;
    };
    return this.#changes.until(look, what, () => `:\n${this.transcript()}`);
  }

  transcript(): string {
    return this.logLines.map((line) => JSON.stringify(line)).join("\n");
  }
}
