import type { Config, Environment } from "../config/load.ts";
import type { Descriptor } from "../descriptor/descriptor.ts";
import { describeError } from "../errors.ts";
import { ExitCode } from "../exit-code.ts";
import { createLogger, type Logger } from "../observability/logger.ts";
import type { Secrets } from "../observability/redact.ts";
import { type SignalSource, waitForSignal } from "../shutdown.ts";
import { startSidecar } from "../sidecar.ts";
import type { StartDisplay } from "./start-display.ts";
import type { Terminal } from "./terminal.ts";

export interface ServeOptions {
  readonly config: Config;
  readonly environment: Environment;
  /** What DESCRIPTOR names, where it is set. */
  readonly descriptor: Descriptor | undefined;
  readonly secrets: Secrets;
  readonly unknownVariables: readonly string[];
  readonly version: string;
  readonly stdout: Terminal & { on(event: "error", listener: () => void): unknown };
  readonly signals: SignalSource & { on(event: "uncaughtException", listener: (error: Error) => void): unknown };
  /** Ends the process at once, by force where a stuck log would keep it from exiting. */
  readonly exit: (exitCode: number, isLogStuck: boolean) => void;
}

/** Serves until it is told to stop or cannot go on, then calls `exit`. */
export async function serve(options: ServeOptions): Promise<void> {
  const logger = await createLogger(options.config.logLevel, options.stdout, options.secrets.redact);
  const display = await startDisplay(options, logger);
  const log = display === undefined ? logger : { ...display.log, close: () => logger.close() };
  const exitCode = await serveUntilEnd(options, log, display);
  const isClosed = await log.close();
  options.exit(exitCode, !isClosed);
}

/** Loaded only where somebody sees it, and not where nothing is to be said. */
async function startDisplay(options: ServeOptions, logger: Logger): Promise<StartDisplay | undefined> {
  const { config, environment, secrets, stdout: terminal, version } = options;
  if (terminal.isTTY !== true || config.logLevel === "silent") return undefined;
  const { StartDisplay } = await import("./start-display.ts");
  return new StartDisplay({ config, environment, redact: secrets.redact, terminal, version, log: logger });
}

async function serveUntilEnd(options: ServeOptions, log: Logger, display: StartDisplay | undefined): Promise<number> {
  const { config, environment, descriptor, secrets, unknownVariables, version, signals, exit } = options;
  const kill = new AbortController();
  try {
    for (const name of unknownVariables) log.warn({ reason: name }, "unknown variable: most likely misspelled");
    const endAtOnce = (exitCode: number): void => {
      kill.abort();
      void log.close().then((isClosed) => exit(exitCode, !isClosed));
    };
    const signalled = waitForSignal(signals, endAtOnce);
    // Also for rejections that nobody handles. The state is unknown then: end, and let the container start anew.
    signals.on("uncaughtException", (error) => {
      log.error({ err: error, reason: describeError(error) }, "uncaught exception: ending");
      endAtOnce(ExitCode.failed);
    });

    const sidecar = await startSidecar({ config, environment, descriptor, secrets, version, log, kill: kill.signal });
    if (display !== undefined) void sidecar.firstReady.then((handshake) => display.showReady(sidecar.address, handshake));
    const end = await Promise.race([signalled, sidecar.failed]);
    display?.end();
    if (typeof end === "string") log.info({ signal: end }, "stopping");
    else if (end?.kind === "restart-limit") log.info({ restarts: end.restarts, reason: "RESTART_LIMIT is reached" }, "stopping");
    await sidecar.stop();
    if (typeof end !== "object") return ExitCode.ok;
    if (end.kind === "restart-limit") return ExitCode.failed;
    const isMissing = end.spawnErrorCode === "ENOENT";
    const reason = isMissing ? "it, or the interpreter it names, does not exist" : "it is not executable";
    log.error({ reason, code: end.spawnErrorCode, line: config.command }, "the command cannot be started");
    return isMissing ? ExitCode.notFound : ExitCode.notExecutable;
  } catch (error) {
    kill.abort();
    display?.end();
    const code = (error as NodeJS.ErrnoException).code;
    const message = code === "EADDRINUSE" ? `port ${config.port} is taken` : "cannot start";
    log.error({ err: error, code, reason: describeError(error) }, message);
    return ExitCode.failed;
  }
}
