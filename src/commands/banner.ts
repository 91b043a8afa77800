import { styleText } from "node:util";
import { maskArgs } from "../config/describe.ts";
import type { Config } from "../config/load.ts";
import { shorten } from "../json/text.ts";
import { readValue } from "../json/values.ts";
import { isJsonObject } from "../jsonrpc/message.ts";

/** A server may call itself and its tools anything, at any length. */
const MAX_NAME_LENGTH = 80;
/** Where every address is listened on, this is one that a client on the same machine can use. */
const UNSPECIFIED_HOST = /^(?:0\.0\.0\.0|\[::\])(?=:\d+$)/;
const INDENT = 2;
const LABEL_WIDTH = 9;
const ELLIPSIS = "…";

export interface BannerFacts {
  readonly config: Pick<Config, "command" | "args" | "path" | "authTokens">;
  readonly version: string;
  /** `host:port` */
  readonly address: string;
  /** The text of the server's `InitializeResult`. */
  readonly resultText: string;
  /** Undefined where the server did not tell them. */
  readonly toolNames: readonly string[] | undefined;
  /** Of the terminal. */
  readonly columns: number;
  /** Makes a text of somebody else's making fit to be shown. */
  readonly plain: (text: string) => string;
}

/** What runs, where it is, what it offers and how to try it. Coloured where stdout takes colours. */
export function bannerText(facts: BannerFacts): string {
  const { config, version, address, resultText, plain } = facts;
  const url = `http://${address.replace(UNSPECIFIED_HOST, "localhost")}${config.path}`;
  const token = config.authTokens.length === 0 ? "" : ' --header "Authorization: Bearer $TOKEN"';
  const lines = [
    ["address", plain(url)],
    ["command", plain([config.command, ...maskArgs(config.args)].join(" "))],
    ["tools", toolsText(facts)],
    ["try it", plain(`npx @modelcontextprotocol/inspector --cli ${url} --transport http${token} --method tools/list`)],
    ["stop", "Ctrl-C"],
  ] as const;
  const shown = lines.map(([label, text]) => `${" ".repeat(INDENT)}${styleText("dim", label.padEnd(LABEL_WIDTH))}${text}\n`);
  return `\n${styleText("bold", `claw-mcp-stdio ${version}`)} serves ${serverName(resultText, plain)}\n${shown.join("")}\n`;
}

/** How many there are, and as many names as fit on the line. */
function toolsText({ toolNames, columns, plain }: BannerFacts): string {
  if (toolNames === undefined) return "not known: the server has not listed them";
  if (toolNames.length === 0) return "none";
  // In the last column the line might be broken.
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

/** As it calls itself in its answer to `initialize`. */
function serverName(resultText: string, plain: (text: string) => string): string {
  const result = readValue(resultText);
  const info = isJsonObject(result) ? result["serverInfo"] : undefined;
  const words = isJsonObject(info) ? [info["name"], info["version"]] : [];
  const name = words.filter((word) => typeof word === "string").join(" ");
  return name === "" ? "an MCP server" : bounded(name, plain);
}

/** Cut only where secrets are masked: a half of one would not be. */
function bounded(name: string, plain: (text: string) => string): string {
  return shorten(plain(name), MAX_NAME_LENGTH);
}
