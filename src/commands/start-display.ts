import { basename } from "node:path";
import type { Config, Environment } from "../config/load.ts";
import type { Log } from "../observability/log.ts";
import type { Logger } from "../observability/logger.ts";
import { maskedPlainText, type Redact } from "../observability/redact.ts";
import type { Sidecar } from "../sidecar.ts";
import type { UpstreamHandshake } from "../upstream/port.ts";
import { bannerText } from "./banner.ts";
import { columnsOf, ProgressLine, type Terminal } from "./terminal.ts";

/** How long the banner waits for the server's tools. */
const TOOLS_TIMEOUT_MS = 2000;
/** What the banner says better. */
const SAID_BY_BANNER: ReadonlySet<string> = new Set([
  "mcp server started",
  "listening",
  "no auth token is set: every client that reaches the address may call",
  "mcp server ready",
]);

export interface StartDisplayOptions {
  readonly config: Pick<Config, "command" | "args" | "path" | "authTokens" | "logLevel">;
  readonly environment: Environment;
  readonly redact: Redact;
  readonly terminal: Omit<Terminal, "write">;
  readonly version: string;
  readonly log: Log & Pick<Logger, "show">;
}

/** What somebody who starts the sidecar by hand sees of the start: that it waits for the server, then a banner. */
export class StartDisplay {
  /** The log without what the banner says; its lines do not run into the line that tells of the waiting. */
  readonly log: Log;
  readonly #options: StartDisplayOptions;
  readonly #progress: ProgressLine;
  #lastWords = "";
  /** The start is over: the banner was shown, or there will be none. */
  #isOver = false;

  constructor(options: StartDisplayOptions) {
    this.#options = options;
    const { config, environment, log } = options;
    this.#progress = new ProgressLine(
      this.#terminal,
      environment,
      this.#plain(`waiting for ${basename(config.command)}`),
      () => this.#lastWords,
    );
    const logAt =
      (level: keyof Log): Log[keyof Log] =>
      (fields, message) => {
        const isStderr = fields["stream"] === "stderr";
        const lastWords = lastWordsOf(message, fields);
        if (lastWords !== undefined) this.#lastWords = this.#plain(lastWords);
        // Warnings are shown in any case, and to who asks for debug everything is.
        const isLeftOut = level === "info" && !isStderr && !this.#isOver && config.logLevel === "info" && SAID_BY_BANNER.has(message);
        if (isLeftOut) return;
        this.#progress.erase();
        log[level](fields, message);
      };
    this.log = { debug: logAt("debug"), info: logAt("info"), warn: logAt("warn"), error: logAt("error") };
  }

  /** To be called once, when the server is ready: asks for its tools, which holds up nobody, and shows the banner. */
  async showReady({ address, toolNames }: Pick<Sidecar, "address" | "toolNames">, { resultText }: UpstreamHandshake): Promise<void> {
    if (this.#isOver) return;
    const { config, log, version } = this.#options;
    const names = await toolNames(TOOLS_TIMEOUT_MS);
    this.#progress.end();
    if (this.#isOver) return;
    this.#isOver = true;
    const plain = (text: string): string => this.#plain(text);
    log.show(bannerText({ config, version, address, resultText, toolNames: names, columns: columnsOf(this.#terminal), plain }));
  }

  /** Nothing more is shown. */
  end(): void {
    this.#isOver = true;
    this.#progress.end();
  }

  /** A terminal shows the Ctrl-C that was typed: what is shown next shall not stand behind it. */
  endInterruptedLine(): void {
    this.#options.log.show("\n");
  }

  /** What is shown waits its turn behind the log, and like it is dropped where nobody reads: nothing else may wait for a reader. */
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

  #plain(text: string): string {
    return maskedPlainText(text, this.#options.redact);
  }
}

/** What the line that waits is to tell from now on, where a log line changes that. */
function lastWordsOf(message: string, { lane, reason, stream }: Readonly<Record<string, unknown>>): string | undefined {
  if (stream === "stderr") return message;
  // The server of a single client is not waited for.
  if (lane !== undefined) return undefined;
  // While nothing runs it says so: what came last is mostly the end of a stack, or of what npm has to say.
  if (message === "mcp server exited") return String(reason);
  return message === "mcp server started" ? "" : undefined;
}
