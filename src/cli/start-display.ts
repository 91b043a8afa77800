import { basename } from "node:path";
import { styleText } from "node:util";
import { OPTIONS } from "../config/options.ts";
import { maskArgs } from "../config/secret-file.ts";
import { shorten } from "../json/text.ts";
import { readValue } from "../json/value.ts";
import { isJsonObject, MetaKey } from "../mcp/message.ts";
import { type Log, logOf } from "../observe/log.ts";
import type { Logger } from "../observe/logger.ts";
import { maskedPlainLines, maskedPlainText } from "../observe/redact.ts";
import type { Sidecar, SidecarOptions } from "../sidecar.ts";
import { columnsOf, showProgress, type Terminal } from "./terminal.ts";

/** A server chooses its name and those of its tools, at any length. */
const MAX_NAME_LENGTH = 80;
/** The banner shows `localhost` instead, which works on the same machine. */
const UNSPECIFIED_HOST = /^(?:0\.0\.0\.0|\[::\])(?=:\d+$)/;
const INDENT = 2;
const LABEL_WIDTH = 9;

function originOf(address: string): string {
  return `http://${address.replace(UNSPECIFIED_HOST, "localhost")}`;
}

/** With their options that have a value which is not the package. */
const DOWNLOADERS: ReadonlyMap<string, string> = new Map([
  ["npx", "-c --call -w --workspace --registry --cache --prefix"],
  ["bunx", ""],
  ["uvx", "--with --with-editable --with-requirements -p --python --index --index-url --default-index --cache-dir"],
]);

/** @returns undefined if nothing is downloaded. */
export function packageOf(command: string, args: readonly string[]): string | undefined {
  const otherOptions = DOWNLOADERS.get(basename(command))?.split(" ");
  const words = args.map((word) => word.replace(/^--(?:package|from)=/, ""));
  return otherOptions && words.find((word, index) => !word.startsWith("-") && !otherOptions.includes(words[index - 1] ?? ""));
}

const TOOLS_TIMEOUT_MS = 2000;
const REPLACED_BY_BANNER: ReadonlySet<string> = new Set([
  "mcp server started",
  "listening",
  "no auth token is set: every client that reaches the address may call",
  "session keys are random: sessions end with the sidecar",
  "session keys loaded",
  "mcp server ready",
]);

/** A progress line while the sidecar waits for the server, then a banner. */
export class StartDisplay {
  /** Without what the banner replaces. Erases the progress line before each line. */
  readonly log: Log;
  readonly #options: Pick<SidecarOptions, "config" | "environment" | "secrets" | "version">;
  readonly #logger: Logger;
  readonly #stdout: Terminal;
  readonly #progress: ReturnType<typeof showProgress>;
  #lastWords = "";
  /** An exit of the server then ends the sidecar, which shows the failure instead of the log line. */
  #mayFail: boolean;
  #isOver = false;

  constructor(options: Pick<SidecarOptions, "config" | "environment" | "secrets" | "version">, stdout: Terminal, logger: Logger) {
    [this.#options, this.#stdout, this.#logger] = [options, stdout, logger];
    const { config, environment } = options;
    this.#mayFail = config.keepTrying === false;
    // Written through the log, in order with its lines, and dropped if the terminal is not read.
    const write = (text: string): void => logger.show(text);
    this.#progress = showProgress(stdout, write, environment, () => [this.#subject(), this.#lastWords]);
    this.log = logOf((level, fields, message) => {
      const isStderr = fields["stream"] === "stderr";
      // The start does not wait for private servers.
      if (fields["lane"] === undefined) {
        if (isStderr) this.#lastWords = this.#plain(message);
        else if (message === "mcp server started") this.#lastWords = "";
        else if (message === "mcp server ready") this.#mayFail = false;
        else if (message === "mcp server exited") {
          if (this.#mayFail) return;
          // The last line of stderr is often the end of a stack or of npm's output.
          this.#lastWords = this.#plain(String(fields["reason"]));
        }
      }
      // Warnings are always shown. At the level debug, all messages are.
      if (level === "info" && !isStderr && !this.#isOver && config.logLevel === "info" && REPLACED_BY_BANNER.has(message)) return;
      this.#progress.erase();
      logger.log[level](fields, message);
    });
  }

  async showReady(
    sidecar: Pick<Sidecar, "address" | "pageAddress" | "toolNames">,
    { resultText }: { readonly resultText: string },
  ): Promise<void> {
    if (this.#isOver) return;
    const toolNames = await sidecar.toolNames(TOOLS_TIMEOUT_MS);
    if (this.#isOver) return;
    this.end();
    this.#logger.show(this.#banner(sidecar, resultText, toolNames));
  }

  #banner(
    { address, pageAddress }: Pick<Sidecar, "address" | "pageAddress">,
    resultText: string,
    toolNames: readonly string[] | undefined,
  ): string {
    const { config, version } = this.#options;
    const url = `${originOf(address)}${config.path}`;
    const result = readValue(resultText);
    const era = isJsonObject(result) && result["supportedVersions"] !== undefined ? " --protocol-era modern" : "";
    const tokenText = config.authTokenFile === undefined ? `$${OPTIONS.authToken.variable}` : "TOKEN";
    const token = config.authTokens.length === 0 ? "" : ` --header "Authorization: Bearer ${tokenText}"`;
    const lines = {
      ...(pageAddress === undefined ? {} : { page: this.#plain(`${originOf(pageAddress)}/`) }),
      address: this.#plain(url),
      command: this.#plain([config.command, ...maskArgs(config.args)].join(" ")),
      tools: this.#toolsText(toolNames),
      "try it": this.#plain(`npx -y @modelcontextprotocol/inspector --cli ${url} --transport http${era}${token} --method tools/list`),
      stop: "Ctrl-C",
    };
    const shown = Object.entries(lines).map(
      ([label, text]) => `${" ".repeat(INDENT)}${styleText("dim", label.padEnd(LABEL_WIDTH))}${text}
`,
    );
    return `
${styleText("bold", `claw-mcp-stdio ${version}`)} serves ${this.#serverName(result)}
${shown.join("")}
`;
  }

  #toolsText(toolNames: readonly string[] | undefined): string {
    if (toolNames === undefined) return "not known: the server has not listed them";
    if (toolNames.length === 0) return "none";
    // A terminal may wrap the line at its last column.
    const room = columnsOf(this.#stdout) - INDENT - LABEL_WIDTH - 1;
    let text = `${toolNames.length}:`;
    for (const [index, toolName] of toolNames.entries()) {
      const isLast = index === toolNames.length - 1;
      const separator = index === 0 ? " " : ", ";
      const next = `${text}${separator}${this.#bounded(toolName)}`;
      if (next.length > room - (isLast ? 0 : ", …".length)) return `${text}${separator}…`;
      text = next;
    }
    return text;
  }

  /** From `initialize` or `server/discover`. */
  #serverName(result: unknown): string {
    const { serverInfo, _meta: meta } = isJsonObject(result) ? result : {};
    const info = serverInfo ?? (isJsonObject(meta) ? meta[MetaKey.serverInfo] : undefined);
    const words = isJsonObject(info) ? [info["name"], info["version"]] : [];
    const name = words.filter((word) => typeof word === "string").join(" ");
    return name === "" ? "an MCP server" : this.#bounded(name);
  }

  /** Secrets are masked first, because half of a secret would not be. */
  #bounded(name: string): string {
    return shorten(this.#plain(name), MAX_NAME_LENGTH);
  }

  fail(text: string): void {
    this.end();
    this.#logger.show(maskedPlainLines(text, this.#options.secrets.redact));
  }

  end(): void {
    this.#isOver = true;
    this.#progress.end();
  }

  showInterrupted(callsInFlight: number, drainTimeoutMs: number): void {
    this.endInterruptedLine();
    if (callsInFlight === 0) return;
    const [calls, them] = callsInFlight === 1 ? ["1 call is", "it"] : [`${callsInFlight} calls are`, "them"];
    const seconds = Math.ceil(drainTimeoutMs / 1000);
    this.#logger.show(`${calls} in flight; waiting for at most ${seconds} s. Ctrl-C ends ${them} at once.\n`);
  }

  /** After the `^C` that a terminal shows for Ctrl-C. */
  endInterruptedLine(): void {
    this.#logger.show("\n");
  }

  /** Names the package: its download may take long, and shows nothing. */
  #subject(): string {
    const { command, args } = this.#options.config;
    const program = basename(command);
    const packageName = packageOf(command, args);
    return this.#plain(`waiting for ${program}${packageName === undefined ? "" : `, which may download ${packageName}`}`);
  }

  #plain(text: string): string {
    return maskedPlainText(text, this.#options.secrets.redact);
  }
}
