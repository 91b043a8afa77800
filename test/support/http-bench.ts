import { EventEmitter } from "node:events";
import { openSync } from "node:fs";
import { serve } from "../../src/cli/serve.ts";
import { readCommandLine } from "../../src/config/command-line.ts";
import { type Environment, loadConfig, withoutPlainOptions } from "../../src/config/load.ts";
import { OPTIONS } from "../../src/config/options.ts";
import { readDescriptor } from "../../src/policy/descriptor.ts";
import { Secrets } from "../../src/observe/redact.ts";
import type { ProcessGroup, startProcess } from "../../src/process/child.ts";
import { withinWaitTimeout } from "./changes.ts";
import { startInProcess } from "./in-process-server.ts";
import { RunningSidecar, type StartOptions } from "./running-sidecar.ts";
import { expectNoProcess, FIXTURE, NO_SLOW_STREAM } from "./sidecar.ts";
import { TempDir } from "./temp-dir.ts";
import { flagsForTokens } from "./token-clients.ts";

interface BenchOptions extends StartOptions {
  /** Replaces the servers that run a fixture in this process. */
  readonly startProcess?: typeof startProcess;
  /** True for a token file with `TOKENS`, which is `tokens` in the directory of the sidecar. */
  readonly hasTokens?: boolean;
}

/**
 * The whole sidecar in the test's process: real configuration, sockets and supervision, with servers that run in this process too
 * (`startInProcess`). A start takes milliseconds. Use with `await using`.
 */
export class HttpBench extends RunningSidecar {
  readonly ended: Promise<number | null>;
  /** For the files of a test. It is removed with the sidecar. */
  readonly directory: TempDir;
  readonly #signals = new EventEmitter();
  /** All that were started, whether or not the log has them. */
  readonly #servers: ProcessGroup[] = [];
  #hasEnded = false;

  private constructor(argv: readonly string[], environment: Environment, start: typeof startProcess, directory: TempDir) {
    super();
    this.directory = directory;
    const exit = Promise.withResolvers<number>();
    this.ended = exit.promise.finally(() => (this.#hasEnded = true));
    this.ended.catch(() => undefined);
    const served = serve({
      ...configurationOf(argv, environment),
      environment,
      version: "0.0.0-bench",
      commands: [],
      // The logger closes it. Tests read the lines as they are made.
      stdout: { fd: openSync("/dev/null", "w") },
      // A test sees a line after what the sidecar does in the same turn, as with a process.
      onLogLine: (line) => setImmediate(() => this.addLogLine(line)),
      personalStderr: undefined,
      signals: this.#signals,
      exit: (code) => setImmediate(() => exit.resolve(code)),
      startProcess: (command) => {
        const server = start(command);
        this.#servers.push(server);
        return server;
      },
    });
    served.catch(exit.reject);
  }

  static async start({
    mode = "normal",
    fixtureArgs = [],
    command,
    flags = [],
    env = {},
    address = "127.0.0.1:0",
    untilReady = true,
    startProcess = startInProcess,
    hasTokens = false,
  }: BenchOptions = {}): Promise<HttpBench> {
    const server = command ?? [process.execPath, FIXTURE, mode, ...fixtureArgs];
    const directory = await TempDir.create();
    const tokens = hasTokens ? await flagsForTokens(directory) : [];
    const bench = new HttpBench(
      ["--addr", address, ...tokens, ...flags, "--", ...server],
      { ...NO_SLOW_STREAM, ...process.env, ...env },
      startProcess,
      directory,
    );
    await bench.waitForStart(untilReady);
    return bench;
  }

  override kill(signal: NodeJS.Signals = "SIGTERM"): void {
    this.#signals.emit(signal, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#hasEnded) await this.stop();
    await withinWaitTimeout(Promise.all(this.#servers.map(({ exited }) => exited)), "the end of all servers");
    await this.directory[Symbol.asyncDispose]();
    await expectNoProcess(this.#servers.flatMap(({ pid = [] }) => pid));
    const defects = this.logLines.filter(({ msg }) => msg === "defect of the sidecar");
    if (defects.length > 0) throw new Error(defects.map((line) => JSON.stringify(line)).join("\n"));
  }
}

function configurationOf(argv: readonly string[], environment: Environment) {
  const commandLine = readCommandLine(argv);
  const { config, problems, ...rest } = loadConfig(commandLine, environment, true);
  if (config === undefined) throw new Error(`invalid configuration: ${problems.join(", ")}`);
  const secrets = new Secrets(withoutPlainOptions(environment));
  secrets.add([...config.authTokens, ...config.sessionKeys]);
  const file = commandLine.flags.get("descriptor") ?? environment[OPTIONS.descriptor.variable] ?? "";
  return { config, secrets, descriptor: file === "" ? undefined : readDescriptor(file), ...rest };
}
