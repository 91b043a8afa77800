import { styleText } from "node:util";
import { maskArgs } from "../../config/mask.ts";
import type { Config } from "../../config/load.ts";
import { OPTIONS } from "../../config/options.ts";
import { shorten } from "../../json/text.ts";
import { readValue } from "../../json/values.ts";
import { isJsonObject } from "../../protocol/message.ts";
import { MetaKey } from "../../protocol/meta-key.ts";

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
