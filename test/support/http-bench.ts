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

interface BenchOptions extends StartOptions {
  /** Replaces the servers that run a fixture in this process. */
  readonly startProcess?: typeof startProcess;
}

/**
 * The whole sidecar in the test's process: real configuration, sockets and supervision, with servers that run in this process too
 * (`startInProcess`). A start takes milliseconds. Use with `await using`.
 */
export class HttpBench extends RunningSidecar {
  readonly ended: Promise<number | null>;
  readonly #signals = new EventEmitter();
  /** All that were started, whether or not the log has them. */
  readonly #servers: ProcessGroup[] = [];
  #hasEnded = false;

  private constructor(argv: readonly string[], environment: Environment, start: typeof startProcess) {
    super();
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
  }: BenchOptions = {}): Promise<HttpBench> {
    const server = command ?? [process.execPath, FIXTURE, mode, ...fixtureArgs];
    const bench = new HttpBench(
      ["--addr", address, ...flags, "--", ...server],
      { ...NO_SLOW_STREAM, ...process.env, ...env },
      startProcess,
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
