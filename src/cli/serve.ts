import { MIN_TOKEN_LENGTH } from "../config/auth-token-file.ts";
import type { Config, Environment, LoadResult } from "../config/load.ts";
import { maskCommand } from "../config/describe.ts";
import type { Descriptor } from "../descriptor/descriptor.ts";
import { describeError } from "../errors.ts";
import { ExitCode } from "./exit-code.ts";
import { commandFailureText, listenFailureText } from "./start-failure.ts";
import { createLogger, type Logger } from "../observability/logger.ts";
import type { Secrets } from "../observability/redact.ts";
import { type SignalSource, waitForSignal } from "./shutdown.ts";
import { startSidecar } from "../sidecar.ts";
import type { StartDisplay } from "./start-display.ts";
import type { Terminal } from "./terminal.ts";

export interface ServeOptions extends Pick<LoadResult, "unknownVariables" | "flagsAfterCommand"> {
  readonly config: Config;
  readonly environment: Environment;
  /** The descriptor in DESCRIPTOR; undefined if not set. */
  readonly descriptor: Descriptor | undefined;
  readonly secrets: Secrets;
  readonly version: string;
  /** The commands of the program, of which COMMAND may be a misspelling. */
  readonly commands: readonly string[];
  readonly stdout: Omit<Terminal, "write">;
  readonly signals: SignalSource & { on(event: "uncaughtException", listener: (error: Error) => void): unknown };
  /** Ends the process at once, by SIGKILL if a stuck log would keep it from exiting. */
  readonly exit: (exitCode: number, isLogStuck: boolean) => void;
}

/** Variables that Node reads before any code of the sidecar runs. Their values are not shown. */
const NODE_VARIABLES: readonly (readonly [name: string, effect: string])[] = [
  ["NODE_DEBUG", "Node may print the server's command and environment to stderr"],
  ["NODE_OPTIONS", "it can open an inspector or load code into the sidecar"],
];

/** Serves until a signal or a fatal error, then calls `exit`. */
export async function serve(options: ServeOptions): Promise<void> {
  const logger = await createLogger(options.config.logLevel, options.stdout, options.secrets.redact);
  const display = await startDisplay(options, logger);
  const log = display === undefined ? logger : { ...logger, ...display.log };
  const exitCode = await serveUntilEnd(options, log, display);
  const isClosed = await log.close();
  options.exit(exitCode, !isClosed);
}

/** Loads the display for a terminal. It is not part of the log and is shown at every LOG_LEVEL. */
async function startDisplay(options: ServeOptions, logger: Logger): Promise<StartDisplay | undefined> {
  const { config, environment, secrets, stdout: terminal, version } = options;
  if (terminal.isTTY !== true) return undefined;
  const { StartDisplay } = await import("./start-display.ts");
  return new StartDisplay({ config, environment, redact: secrets.redact, terminal, version, log: logger });
}

/** Logs settings that are valid, but most likely not meant. */
function logWarnings({ config, environment, unknownVariables, flagsAfterCommand }: ServeOptions, log: Logger): void {
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

async function serveUntilEnd(options: ServeOptions, log: Logger, display: StartDisplay | undefined): Promise<number> {
  const { config, environment, descriptor, secrets, version, commands, signals, exit } = options;
  const kill = new AbortController();
  try {
    logWarnings(options, log);
    const endAtOnce = (exitCode: number): void => {
      kill.abort();
      void log.close().then((isClosed) => exit(exitCode, !isClosed));
    };
    const signalled = waitForSignal(signals, (exitCode) => {
      display?.endInterruptedLine();
      endAtOnce(exitCode);
    });
    // The terminal is closed. The kernel and a shell may both send SIGHUP, so a second one does not force the exit.
    const hungUp = new Promise<NodeJS.Signals>((resolve) => signals.on("SIGHUP", resolve));
    // Includes unhandled rejections. The state is unknown after that, so the sidecar exits, and the container restarts it.
    signals.on("uncaughtException", (error) => {
      log.error({ err: error, reason: describeError(error) }, "uncaught exception: ending");
      endAtOnce(ExitCode.failed);
    });

    const sidecar = await startSidecar({ config, environment, descriptor, secrets, version, log, kill: kill.signal });
    if (display !== undefined) void sidecar.firstReady.then((handshake) => display.showReady(sidecar, handshake));
    const end = await Promise.race([signalled, hungUp, sidecar.failed]);
    display?.end();
    if (end === "SIGINT") display?.endInterruptedLine();
    if (typeof end === "string") log.info({ signal: end }, "stopping");
    else if (end?.kind === "restart-limit") log.info({ restarts: end.restarts, reason: "RESTART_LIMIT is reached" }, "stopping");
    await sidecar.stop();
    if (typeof end !== "object") return ExitCode.ok;
    if (end.kind === "restart-limit") return ExitCode.failed;
    const { spawnErrorCode: code } = end;
    const reason = commandFailureText(config.command, code, commands);
    log.error({ reason, code, line: maskCommand(config.command) }, "the command cannot be started");
    return code === "ENOENT" ? ExitCode.notFound : ExitCode.notExecutable;
  } catch (error) {
    kill.abort();
    display?.end();
    const { code, syscall } = error as NodeJS.ErrnoException;
    // System errors are about the address, which `reason` names. Other errors need their stack.
    const fields = { code, reason: listenFailureText(error), ...(syscall === undefined ? { err: error } : {}) };
    log.error(fields, code === "EADDRINUSE" ? "the port is taken" : "cannot start");
    return ExitCode.failed;
  }
}
