import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { styleText } from "node:util";
import type { Config, Environment } from "../config/load.ts";
import { OPTIONS } from "../config/options.ts";
import { maskArgs } from "../config/secret-file.ts";
import { shorten } from "../json/text.ts";
import { readValue } from "../json/value.ts";
import { isJsonObject, MetaKey } from "../mcp/message.ts";
import type { Log } from "../observe/log.ts";
import type { Logger } from "../observe/logger.ts";
import { maskedPlainLines, maskedPlainText, type Redact } from "../observe/redact.ts";
import type { UpstreamHandshake } from "../process/port.ts";
import type { Sidecar } from "../sidecar.ts";
import { columnsOf, ProgressLine, type Terminal } from "./terminal.ts";

/** A server chooses its name and those of its tools, at any length. */
const MAX_NAME_LENGTH = 80;
/** Addresses of all interfaces. The banner shows `localhost` instead, which works for a client on the same machine. */
const UNSPECIFIED_HOST = /^(?:0\.0\.0\.0|\[::\])(?=:\d+$)/;
const INDENT = 2;
const LABEL_WIDTH = 9;
const ELLIPSIS = "…";

export interface BannerFacts {
  readonly config: Pick<Config, "command" | "args" | "path" | "authTokens" | "authTokenFile">;
  readonly version: string;
  /** `host:port` */
  readonly address: string;
  /** `host:port` of the page; undefined without one. */
  readonly pageAddress: string | undefined;
  /** The text of the server's `InitializeResult`. */
  readonly resultText: string;
  /** Undefined if the server has not listed them. */
  readonly toolNames: readonly string[] | undefined;
  /** The width of the terminal. */
  readonly columns: number;
  /** Makes a text from the server or the configuration safe to show. */
  readonly plain: (text: string) => string;
}

/** Returns the banner: the server, its address and tools, and a command to try it. Coloured if stdout supports colours. */
export function bannerText(facts: BannerFacts): string {
  const { config, version, address, pageAddress, resultText, plain } = facts;
  const url = `${originOf(address)}${config.path}`;
  const result = readValue(resultText);
  const era = isJsonObject(result) && result["supportedVersions"] !== undefined ? " --protocol-era modern" : "";
  const token =
    config.authTokens.length === 0
      ? ""
      : ` --header "Authorization: Bearer ${config.authTokenFile === undefined ? `$${OPTIONS.authToken.variable}` : "TOKEN"}"`;
  const lines: readonly (readonly [label: string, text: string])[] = [
    ...(pageAddress === undefined ? [] : [["page", plain(`${originOf(pageAddress)}/`)] as const]),
    ["address", plain(url)],
    ["command", plain([config.command, ...maskArgs(config.args)].join(" "))],
    ["tools", toolsText(facts)],
    ["try it", plain(`npx -y @modelcontextprotocol/inspector --cli ${url} --transport http${era}${token} --method tools/list`)],
    ["stop", "Ctrl-C"],
  ];
  const shown = lines.map(([label, text]) => `${" ".repeat(INDENT)}${styleText("dim", label.padEnd(LABEL_WIDTH))}${text}\n`);
  return `\n${styleText("bold", `claw-mcp-stdio ${version}`)} serves ${serverName(result, plain)}\n${shown.join("")}\n`;
}

function originOf(address: string): string {
  return `http://${address.replace(UNSPECIFIED_HOST, "localhost")}`;
}

/** Returns the number of tools, and as many names as fit on the line. */
function toolsText({ toolNames, columns, plain }: BannerFacts): string {
  if (toolNames === undefined) return "not known: the server has not listed them";
  if (toolNames.length === 0) return "none";
  // A terminal may wrap the line at its last column.
  const room = columns - INDENT - LABEL_WIDTH - 1;
  let text = `${toolNames.length}:`;
  for (const [index, toolName] of toolNames.entries()) {
    const isLast = index === toolNames.length - 1;
    const next = `${text}${index === 0 ? "" : ","} ${bounded(toolName, plain)}`;
    if (next.length > room - (isLast ? 0 : `, ${ELLIPSIS}`.length)) return `${text}${index === 0 ? "" : ","} ${ELLIPSIS}`;
    text = next;
  }
  return text;
}

/** Returns the server's name and version from its response to `initialize` or `server/discover`. */
function serverName(result: unknown, plain: (text: string) => string): string {
  const { serverInfo, _meta: meta } = isJsonObject(result) ? result : {};
  const info = serverInfo ?? (isJsonObject(meta) ? meta[MetaKey.serverInfo] : undefined);
  const words = isJsonObject(info) ? [info["name"], info["version"]] : [];
  const name = words.filter((word) => typeof word === "string").join(" ");
  return name === "" ? "an MCP server" : bounded(name, plain);
}

/** Shortens a name after its secrets are masked, because half of a secret would not be. */
function bounded(name: string, plain: (text: string) => string): string {
  return shorten(plain(name), MAX_NAME_LENGTH);
}

/** Programs that download a package before they run it, and their options with a value. */
const DOWNLOADERS: Readonly<Record<string, { readonly packageFlags: readonly string[]; readonly otherFlags: readonly string[] }>> = {
  npx: { packageFlags: ["-p", "--package"], otherFlags: ["-c", "--call", "-w", "--workspace", "--registry", "--cache", "--prefix"] },
  bunx: { packageFlags: ["-p", "--package"], otherFlags: [] },
  uvx: {
    packageFlags: ["--from"],
    otherFlags: [
      "--with",
      "--with-editable",
      "--with-requirements",
      "-p",
      "--python",
      "--index",
      "--index-url",
      "--default-index",
      "--cache-dir",
    ],
  },
};

/** A command that runs a package, and downloads it before if it is not in its cache. */
export interface PackageCommand {
  /** Such as `npx`. */
  readonly program: string;
  /** The package as the command line names it, with its version. */
  readonly packageName: string;
}

/** @returns undefined for a command that downloads nothing, or whose package is not known. */
export function packageCommand(command: string, args: readonly string[]): PackageCommand | undefined {
  const program = basename(command);
  const known = Object.hasOwn(DOWNLOADERS, program) ? DOWNLOADERS[program] : undefined;
  if (known === undefined) return undefined;
  for (let index = 0; index < args.length; index++) {
    const word = args[index] ?? "";
    const [flag = "", inline] = word.startsWith("--") ? word.split("=", 2) : [word];
    if (!word.startsWith("-")) return { program, packageName: word };
    const isPackage = known.packageFlags.includes(flag);
    const value = inline ?? args[index + 1];
    if (isPackage && value !== undefined) return { program, packageName: value };
    if (inline === undefined && known.otherFlags.includes(flag)) index++;
  }
  return undefined;
}

/** True if a process has started none itself: a program of this kind still looks for its package or downloads it. */
function hasNoChildren(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1").trim() === "";
  } catch {
    // The process has exited, or the system does not tell.
    return false;
  }
}

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
