import type { EventEmitter } from "node:events";
import { constants } from "node:os";
import { COMMAND_LINE, type LoadResult } from "../config/load.ts";
import { MIN_TOKEN_LENGTH } from "../config/secret-file.ts";
import { RecentLog } from "../http/recent.ts";
import { describeError } from "../mcp/errors.ts";
import type { Log } from "../observe/log.ts";
import { createLogger, type Logger } from "../observe/logger.ts";
import { maskedPlainLines } from "../observe/redact.ts";
import { type Sidecar, type SidecarOptions, startSidecar } from "../sidecar.ts";
import type { StartDisplay } from "./start-display.ts";
import { commandFailure, failureText, listenFailure, neverReady, type StartFailure } from "./start-failure.ts";
import { ExitCode, type Terminal } from "./terminal.ts";

/** A second SIGTERM or SIGINT calls `onSecond` with the exit code that a shell reports for it. */
export function waitForSignal(source: EventEmitter, onSecond: (exitCode: number) => void): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let hasFirst = false;
    for (const name of ["SIGTERM", "SIGINT"]) {
      source.on(name, (signal: NodeJS.Signals) => {
        if (hasFirst) onSecond(128 + (constants.signals[signal] ?? 0));
        hasFirst = true;
        resolve(signal);
      });
    }
    // The terminal is closed. The kernel and a shell may both send it, so a second one does not force the exit.
    source.on("SIGHUP", resolve);
  });
}

export interface ServeOptions
  extends Pick<LoadResult, "unknownVariables" | "flagsAfterCommand" | "given">, Omit<SidecarOptions, "log" | "recentLog" | "kill"> {
  /** COMMAND may be a misspelling of them. */
  readonly commands: readonly string[];
  readonly stdout: Terminal & { readonly fd: number };
  /** As JSON, with secrets masked. */
  readonly onLogLine?: (line: string) => void;
  /** The terminal of a person who has started the program; undefined in a container. */
  readonly personalStderr: { write(text: string): unknown } | undefined;
  /** Also of `uncaughtException`. */
  readonly signals: EventEmitter;
  /** By SIGKILL if a stuck log would keep the process from exiting. */
  readonly exit: (exitCode: number, isLogStuck: boolean) => void;
}

/** After the drain, for the servers and the log (docs/operations/shutdown.md). */
const TERMINATION_MS = 4000;

/** Node reads them before any code of the sidecar runs. */
const NODE_VARIABLES: readonly (readonly [name: string, effect: string])[] = [
  ["NODE_DEBUG", "Node may print the server's command and environment to stderr"],
  ["NODE_OPTIONS", "it can open an inspector or load code into the sidecar"],
];

export async function serve(input: ServeOptions): Promise<void> {
  const { personalStderr, secrets, stdout, onLogLine } = input;
  const config = { ...input.config, keepTrying: input.config.keepTrying ?? personalStderr === undefined };
  const options = { ...input, config };
  const recentLog = config.page ? new RecentLog() : undefined;
  const listeners = [recentLog?.add.bind(recentLog), onLogLine].filter((each) => each !== undefined);
  const logger = await createLogger(config.logLevel, stdout, secrets.redact, listeners);
  // It is not part of the log and is shown at every LOG_LEVEL.
  const display = stdout.isTTY === true ? new (await import("./start-display.ts")).StartDisplay(options, stdout, logger) : undefined;
  const serving = new Serving(options, logger, recentLog, display);
  const exitCode = await serving.untilEnd();
  const isClosed = await logger.close(serving.logEndMs);
  options.exit(serving.forcedExitCode ?? exitCode, !isClosed);
}

/** Valid, but most likely not meant. */
function logWarnings({ config, environment, unknownVariables, flagsAfterCommand }: ServeOptions, log: Log): void {
  for (const name of unknownVariables) log.warn({ reason: name }, "unknown variable: most likely misspelled");
  for (const reason of flagsAfterCommand) log.warn({ reason }, "flag after the command goes to the server");
  for (const [name, effect] of NODE_VARIABLES) {
    if ((environment[name] ?? "") !== "")
      log.warn({ reason: `${name}: ${effect}` }, "variable meant for the server acts on the sidecar too");
  }
  if (config.authToken !== undefined && config.authToken.length < MIN_TOKEN_LENGTH) {
    log.warn({ reason: `it has fewer than ${MIN_TOKEN_LENGTH} characters` }, "auth token is short: it can be guessed");
  }
}

class Serving {
  readonly #options: ServeOptions;
  readonly #logger: Logger;
  readonly #log: Log;
  readonly #recentLog: RecentLog | undefined;
  readonly #display: StartDisplay | undefined;
  readonly #kill = new AbortController();
  /** By `performance.now()`. */
  logEndMs = 0;
  /** Set at a second signal, or after a defect. */
  forcedExitCode: number | undefined;

  constructor(options: ServeOptions, logger: Logger, recentLog: RecentLog | undefined, display: StartDisplay | undefined) {
    [this.#options, this.#logger, this.#recentLog, this.#display] = [options, logger, recentLog, display];
    this.#log = display?.log ?? logger.log;
  }

  async untilEnd(): Promise<number> {
    const { commands, config, given } = this.#options;
    const isOnLine = given.get("command")?.source === COMMAND_LINE;
    const [log, display, kill] = [this.#log, this.#display, this.#kill];
    logWarnings(this.#options, log);
    let sidecar: Sidecar | undefined;
    const signalled = this.#watchSignals(() => sidecar?.countCallsInFlight() ?? 0);
    try {
      sidecar = await startSidecar({ ...this.#options, log, recentLog: this.#recentLog, kill: kill.signal });
    } catch (error) {
      kill.abort();
      return this.#fail(listenFailure(error, isOnLine ? config.command : undefined, commands));
    }
    const running = sidecar;
    if (display !== undefined) void running.firstReady.then((handshake) => display.showReady(running, handshake));
    const end = await Promise.race([signalled, running.failed]);
    display?.end();
    this.logEndMs = performance.now() + config.drainTimeoutMs + TERMINATION_MS;
    if (typeof end === "string") {
      const { preStopMs } = config;
      this.logEndMs += preStopMs;
      log.info(preStopMs === 0 ? { signal: end } : { signal: end, pauseMs: preStopMs }, "stopping");
      await Promise.race([running.leave(), running.failed]);
      if (preStopMs > 0) log.info({ count: running.countCallsInFlight() }, "draining");
    }
    if (typeof end === "object" && "restarts" in end) log.info({ restarts: end.restarts, reason: "RESTART_LIMIT is reached" }, "stopping");
    await running.stop();
    if (typeof end !== "object") return ExitCode.ok;
    if (end.kind === "never-ready") return this.#fail(neverReady(end.exit));
    if (end.kind === "restart-limit") return ExitCode.failed;
    return this.#fail(commandFailure(config.command, end.spawnErrorCode, isOnLine, commands));
  }

  #watchSignals(callsInFlight: () => number): Promise<NodeJS.Signals> {
    const { config, signals } = this.#options;
    const signalled = waitForSignal(signals, (exitCode) => {
      this.#display?.endInterruptedLine();
      this.#endAtOnce(exitCode);
    });
    // Includes unhandled rejections. The state is unknown after that, so the sidecar exits, and the container restarts it.
    signals.on("uncaughtException", (error: Error) => {
      this.#log.error({ err: error, reason: describeError(error) }, "uncaught exception: ending");
      this.#endAtOnce(ExitCode.failed);
    });
    void signalled.then((signal) => {
      if (signal === "SIGINT") this.#display?.showInterrupted(callsInFlight(), config.preStopMs + config.drainTimeoutMs);
    });
    return signalled;
  }

  #endAtOnce(exitCode: number): void {
    this.forcedExitCode = exitCode;
    this.#kill.abort();
    void this.#logger.close().then((isClosed) => this.#options.exit(exitCode, !isClosed));
  }

  #fail(failure: StartFailure): number {
    const { config, personalStderr, secrets } = this.#options;
    const { problem, fix, exitCode } = failure;
    if (this.#display === undefined) {
      failure.report(this.#log, fix === undefined ? problem : `${problem}; ${fix}`);
      personalStderr?.write(maskedPlainLines(failureText(failure), secrets.redact));
    } else {
      // At these levels, the display has shown the server's output.
      const isShown = config.logLevel === "info" || config.logLevel === "debug";
      this.#display.fail(failureText(isShown ? { ...failure, output: [] } : failure));
    }
    return exitCode;
  }
}
