import type { EventEmitter } from "node:events";
import { constants } from "node:os";
import { COMMAND_LINE, type Config, type LoadResult } from "../config/load.ts";
import { MIN_TOKEN_LENGTH } from "../config/secret-file.ts";
import { RecentLog } from "../http/recent.ts";
import { describeError } from "../mcp/errors.ts";
import type { Log } from "../observe/log.ts";
import { createLogger } from "../observe/logger.ts";
import { maskedPlainLines } from "../observe/redact.ts";
import type { SupervisorFailure } from "../process/supervisor.ts";
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
  const { personalStderr, secrets, stdout, onLogLine, commands, given, signals } = input;
  const config = { ...input.config, keepTrying: input.config.keepTrying ?? personalStderr === undefined };
  const options = { ...input, config };
  const recentLog = config.page ? new RecentLog() : undefined;
  const listeners = [recentLog?.add.bind(recentLog), onLogLine].filter((each) => each !== undefined);
  const logger = await createLogger(config.logLevel, stdout, secrets.redact, listeners);
  // It is not part of the log and is shown at every LOG_LEVEL.
  const display = stdout.isTTY === true ? new (await import("./start-display.ts")).StartDisplay(options, stdout, logger) : undefined;
  const log = display?.log ?? logger.log;
  logWarnings(options, log);
  const kill = new AbortController();
  /** Set at a second signal, or after a defect. */
  let forcedExitCode: number | undefined;
  const endAtOnce = (exitCode: number): void => {
    forcedExitCode = exitCode;
    kill.abort();
    void logger.close().then((isClosed) => options.exit(exitCode, !isClosed));
  };
  const signalled = waitForSignal(signals, (exitCode) => {
    display?.endInterruptedLine();
    endAtOnce(exitCode);
  });
  // Includes unhandled rejections. The state is unknown after that, so the sidecar exits, and the container restarts it.
  signals.on("uncaughtException", (error: Error) => {
    log.error({ err: error, reason: describeError(error) }, "uncaught exception: ending");
    endAtOnce(ExitCode.failed);
  });
  let sidecar: Sidecar | undefined;
  void signalled.then((signal) => {
    if (signal === "SIGINT") display?.showInterrupted(sidecar?.countCallsInFlight() ?? 0, config.preStopMs + config.drainTimeoutMs);
  });
  const isOnLine = given.get("command")?.source === COMMAND_LINE;
  let outcome: StartFailure | number = ExitCode.ok;
  let logEndMs = 0;
  try {
    sidecar = await startSidecar({ ...options, log, recentLog, kill: kill.signal });
  } catch (error) {
    kill.abort();
    outcome = listenFailure(error, isOnLine ? config.command : undefined, commands);
  }
  if (sidecar !== undefined) {
    const [failure, endMs] = await untilStopped(sidecar, signalled, config, log, display);
    logEndMs = endMs;
    if (failure?.kind === "never-ready") outcome = neverReady(failure.exit);
    else if (failure?.kind === "restart-limit") outcome = ExitCode.failed;
    else if (failure !== undefined) outcome = commandFailure(config.command, failure.spawnErrorCode, isOnLine, commands);
  }
  const exitCode = typeof outcome === "number" ? outcome : show(outcome, options, log, display);
  const isClosed = await logger.close(logEndMs);
  options.exit(forcedExitCode ?? exitCode, !isClosed);
}

/** @returns the failure that has ended it, if any, and the time by which the log must end, of `performance.now()`. */
async function untilStopped(
  sidecar: Sidecar,
  signalled: Promise<NodeJS.Signals>,
  { preStopMs, drainTimeoutMs }: Config,
  log: Log,
  display: StartDisplay | undefined,
): Promise<[failure: SupervisorFailure | undefined, logEndMs: number]> {
  if (display !== undefined) void sidecar.firstReady.then((handshake) => display.showReady(sidecar, handshake));
  const end = await Promise.race([signalled, sidecar.failed]);
  display?.end();
  const logEndMs = performance.now() + drainTimeoutMs + TERMINATION_MS;
  if (typeof end !== "string") {
    if (end?.kind === "restart-limit") log.info({ restarts: end.restarts, reason: "RESTART_LIMIT is reached" }, "stopping");
    await sidecar.stop();
    return [end, logEndMs];
  }
  log.info(preStopMs === 0 ? { signal: end } : { signal: end, pauseMs: preStopMs }, "stopping");
  await Promise.race([sidecar.leave(), sidecar.failed]);
  if (preStopMs > 0) log.info({ count: sidecar.countCallsInFlight() }, "draining");
  await sidecar.stop();
  return [undefined, logEndMs + preStopMs];
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

/** @returns its exit code. */
function show(
  failure: StartFailure,
  { config, personalStderr, secrets }: ServeOptions,
  log: Log,
  display: StartDisplay | undefined,
): number {
  const { problem, fix, exitCode } = failure;
  if (display === undefined) {
    failure.report(log, fix === undefined ? problem : `${problem}; ${fix}`);
    personalStderr?.write(maskedPlainLines(failureText(failure), secrets.redact));
  } else {
    // At these levels, the display has shown the server's output.
    const isShown = config.logLevel === "info" || config.logLevel === "debug";
    display.fail(failureText(isShown ? { ...failure, output: [] } : failure));
  }
  return exitCode;
}
