import { setImmediate } from "node:timers/promises";
import { styleText } from "node:util";
import type { Config, Environment } from "../config/load.ts";
import { maskArgs } from "../config/describe.ts";
import { isJsonObject } from "../jsonrpc/message.ts";
import type { Log } from "../observability/log.ts";
import type { Redact } from "../observability/redact.ts";
import type { Handshake } from "../upstream/handshake.ts";
import { plainText, ProgressLine, type Terminal } from "./terminal.ts";

/** A server may call itself anything, at any length. */
const MAX_NAME_LENGTH = 80;
/** Where every address is listened on, this is one that a client on the same machine can use. */
const UNSPECIFIED_HOST = /^(?:0\.0\.0\.0|\[::\])(?=:\d+$)/;

export interface StartDisplayOptions {
  readonly config: Pick<Config, "command" | "args" | "path" | "authTokens">;
  readonly environment: Environment;
  readonly redact: Redact;
  readonly terminal: Terminal & { on(event: "error", listener: () => void): unknown };
  readonly version: string;
  readonly log: Log;
}

/** What somebody who starts the sidecar by hand sees besides the log: that it waits for the server, then where it is and how to try it. */
export class StartDisplay {
  /** The log, whose lines do not run into the line that tells of the waiting. */
  readonly log: Log;
  readonly #options: StartDisplayOptions;
  readonly #progress: ProgressLine;
  #lastWords = "";
  #isOver = false;

  constructor(options: StartDisplayOptions) {
    this.#options = options;
    const { config, environment, log, redact, terminal } = options;
    // A terminal that is gone is no reason to end.
    terminal.on("error", () => undefined);
    this.#progress = new ProgressLine(terminal, environment, redact(`waiting for ${config.command}`), () => this.#lastWords);
    const logAt =
      (level: keyof Log): Log[keyof Log] =>
      (fields, message) => {
        if (fields["stream"] === "stderr") this.#lastWords = message;
        this.#progress.erase();
        log[level](fields, message);
      };
    this.log = { debug: logAt("debug"), info: logAt("info"), warn: logAt("warn"), error: logAt("error") };
  }

  /** To be called once, when the server can be used. */
  async showReady(address: string, { resultText }: Handshake): Promise<void> {
    this.#progress.end();
    // The lines that were logged until now come first.
    await setImmediate();
    if (!this.#isOver) this.#options.terminal.write(this.#banner(address, serverName(resultText)));
  }

  /** Nothing more is shown. */
  end(): void {
    this.#isOver = true;
    this.#progress.erase();
    this.#progress.end();
  }

  #banner(address: string, server: string): string {
    const { config, version } = this.#options;
    const url = `http://${address.replace(UNSPECIFIED_HOST, "localhost")}${config.path}`;
    const token = config.authTokens.length === 0 ? "" : ' --header "Authorization: Bearer $TOKEN"';
    const lines = [
      ["address", url],
      ["command", [config.command, ...maskArgs(config.args)].join(" ")],
      ["try it", `npx @modelcontextprotocol/inspector --cli ${url} --transport http${token} --method tools/list`],
      ["stop", "Ctrl-C"],
    ] as const;
    const shown = lines.map(([name, text]) => `  ${styleText("dim", name.padEnd(9))}${this.#plain(text)}\n`);
    return `\n${styleText("bold", `claw-mcp-stdio ${version}`)} serves ${this.#plain(server)}\n${shown.join("")}\n`;
  }

  #plain(text: string): string {
    return plainText(this.#options.redact(text));
  }
}

/** As it calls itself in its answer to `initialize`. */
function serverName(resultText: string): string {
  const result: unknown = JSON.parse(resultText);
  const info = isJsonObject(result) ? result["serverInfo"] : undefined;
  const words = isJsonObject(info) ? [info["name"], info["version"]] : [];
  const name = words.filter((word) => typeof word === "string").join(" ");
  return name === "" ? "an MCP server" : name.slice(0, MAX_NAME_LENGTH);
}
