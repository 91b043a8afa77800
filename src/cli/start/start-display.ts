import { basename } from "node:path";
import type { Config, Environment } from "../../config/load.ts";
import type { Log } from "../../observability/log.ts";
import type { Logger } from "../../observability/logger.ts";
import { maskedPlainLines, maskedPlainText, type Redact } from "../../observability/redact.ts";
import type { Sidecar } from "../../sidecar.ts";
import type { UpstreamHandshake } from "../../upstream/port.ts";
import { bannerText } from "./banner.ts";
import { hasNoChildren, packageCommand } from "./download.ts";
import { columnsOf, ProgressLine, type Terminal } from "../terminal.ts";

/** The time for the server to list its tools for the banner. */
const TOOLS_TIMEOUT_MS = 2000;
/** The log messages that the banner replaces. */
const REPLACED_BY_BANNER: ReadonlySet<string> = new Set([
  "mcp server started",
  "listening",
  "no auth token is set: every client that reaches the address may call",
  "session keys are random: sessions end with the sidecar",
  "session keys loaded",
  "mcp server ready",
]);

export interface StartDisplayOptions {
  readonly config: Pick<Config, "command" | "args" | "path" | "authTokens" | "authTokenFile" | "logLevel">;
  readonly environment: Environment;
  readonly redact: Redact;
  readonly terminal: Omit<Terminal, "write">;
  readonly version: string;
  readonly log: Log & Pick<Logger, "show">;
}

/** The display on a terminal during the start: a progress line while the sidecar waits for the server, then a banner. */
export class StartDisplay {
  /** The log without the messages that the banner replaces. Erases the progress line before each log line. */
  readonly log: Log;
  readonly #options: StartDisplayOptions;
  readonly #progress: ProgressLine;
  #lastWords = "";
  #childPid: number | undefined;
  /** True if the banner was shown or will not be shown. */
  #isOver = false;

  constructor(options: StartDisplayOptions) {
    this.#options = options;
    const { config, environment, log } = options;
    this.#progress = new ProgressLine(
      this.#terminal,
      environment,
      () => this.#subject(),
      () => this.#lastWords,
    );
    const logAt =
      (level: keyof Log): Log[keyof Log] =>
      (fields, message) => {
        const isStderr = fields["stream"] === "stderr";
        const lastWords = lastWordsOf(message, fields);
        if (lastWords !== undefined) this.#lastWords = this.#plain(lastWords);
        // Warnings are always shown. At the level debug, all messages are.
        if (message === "mcp server started" && fields["lane"] === undefined) this.#childPid = Number(fields["childPid"]);
        const isReplaced = level === "info" && !isStderr && !this.#isOver && config.logLevel === "info" && REPLACED_BY_BANNER.has(message);
        if (isReplaced) return;
        this.#progress.erase();
        log[level](fields, message);
      };
    this.log = { debug: logAt("debug"), info: logAt("info"), warn: logAt("warn"), error: logAt("error") };
  }

  /** Requests the server's tools, which does not delay clients, and shows the banner. To be called once, when the server is ready. */
  async showReady(sidecar: Pick<Sidecar, "address" | "pageAddress" | "toolNames">, { resultText }: UpstreamHandshake): Promise<void> {
    if (this.#isOver) return;
    const { config, log, version } = this.#options;
    const { address, pageAddress } = sidecar;
    const toolNames = await sidecar.toolNames(TOOLS_TIMEOUT_MS);
    this.#progress.end();
    if (this.#isOver) return;
    this.#isOver = true;
    const plain = (text: string): string => this.#plain(text);
    const columns = columnsOf(this.#terminal);
    log.show(bannerText({ config, version, address, pageAddress, resultText, toolNames, columns, plain }));
  }

  /** Shows a failure, and ends the display. */
  fail(text: string): void {
    this.end();
    this.#options.log.show(maskedPlainLines(text, this.#options.redact));
  }

  /** Ends the display. */
  end(): void {
    this.#isOver = true;
    this.#progress.end();
  }

  /** Shows that the sidecar waits for calls, after the `^C` that a terminal shows for Ctrl-C. */
  showInterrupted(callsInFlight: number, drainTimeoutMs: number): void {
    this.endInterruptedLine();
    if (callsInFlight === 0) return;
    const [calls, them] = callsInFlight === 1 ? ["1 call is", "it"] : [`${callsInFlight} calls are`, "them"];
    const seconds = Math.ceil(drainTimeoutMs / 1000);
    this.#options.log.show(`${calls} in flight; waiting for at most ${seconds} s. Ctrl-C ends ${them} at once.\n`);
  }

  /** Begins a new line after the `^C` that a terminal shows for Ctrl-C. */
  endInterruptedLine(): void {
    this.#options.log.show("\n");
  }

  /** Writes through the log, in order with its lines. Output is dropped if the terminal is not read, so that nothing waits for it. */
  get #terminal(): Terminal {
    const { log, terminal } = this.#options;
    return {
      isTTY: terminal.isTTY === true,
      get columns() {
        return terminal.columns ?? 0;
      },
      write: (text) => log.show(text),
    };
  }

  /** Names the package while it is downloaded. */
  #subject(): string {
    const { command, args } = this.#options.config;
    const download = packageCommand(command, args);
    if (download === undefined) return this.#plain(`waiting for ${basename(command)}`);
    const { program, packageName } = download;
    const isDownloading = this.#childPid !== undefined && hasNoChildren(this.#childPid);
    return this.#plain(isDownloading ? `${program} downloads ${packageName}` : `waiting for ${packageName}`);
  }

  #plain(text: string): string {
    return maskedPlainText(text, this.#options.redact);
  }
}

/** Returns the new text after the waiting time; undefined if the log line does not change it. */
function lastWordsOf(message: string, { lane, reason, stream }: Readonly<Record<string, unknown>>): string | undefined {
  // The start does not wait for private servers.
  if (lane !== undefined) return undefined;
  if (stream === "stderr") return message;
  // After an exit the reason is shown, because the last line of stderr is often the end of a stack or of npm's output.
  if (message === "mcp server exited") return String(reason);
  return message === "mcp server started" ? "" : undefined;
}
