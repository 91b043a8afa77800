import { flagUsage, type Option, VARIABLE_PREFIX } from "../config/option.ts";
import { ALL_OPTIONS, COMMON_OPTIONS, OPTION_GROUPS } from "../config/options.ts";

const MAX_COLUMNS = 100;
const MIN_COLUMNS = 40;
const INDENT = " ".repeat(2);
const DEEP_INDENT = " ".repeat(6);

const SUMMARY = "claw-mcp-stdio serves a stdio MCP server over Streamable HTTP, and keeps answering when that server crashes.";

type Entry = readonly [term: string, text: string];

const SERVE_EXAMPLE = "claw-mcp-stdio -- npx -y @modelcontextprotocol/server-everything";

const USAGE: readonly Entry[] = [
  [
    "claw-mcp-stdio [serve] [options] [--] COMMAND [ARG ...]",
    "Serve the MCP server that COMMAND starts. Options after COMMAND are arguments of the server. Write -- before a COMMAND that is named like a command of this program.",
  ],
  ["claw-mcp-stdio [serve] [options]", "The same, with COMMAND and ARGS from the environment."],
  ["claw-mcp-stdio discover [options] [--] COMMAND [ARG ...]", "Write or check a descriptor of the server's tools (see discover --help)."],
  ["claw-mcp-stdio healthcheck [options]", "Exit with 0 if the sidecar at the configured address is ready, else 1 (also -healthcheck)."],
  ["claw-mcp-stdio help [all | discover]", "Print the most used options, all options, or those of discover (also -h, --help, --help all)."],
  ["claw-mcp-stdio version", "Print the version (also -v, --version)."],
];

const GENERAL: readonly Entry[] = [
  ["-h, --help [all]", "Print this text and exit; with all, every option."],
  ["-v, --version", "Print the version and exit."],
  [
    "--check-config[=json]",
    "Print each option with its value and source, secrets masked, and exit. The exit code is 2 for a misspelled variable. With json, print the effective configuration.",
  ],
];

const EXIT_CODES: readonly Entry[] = [
  ["0", "stopped by a signal"],
  ["1", "failed, for example because the port is in use or RESTART_LIMIT is reached"],
  ["2", "invalid configuration"],
  ["3", "discover --check found differences"],
  ["126", "COMMAND cannot be executed"],
  ["127", "COMMAND does not exist"],
  ["128 + n", "stopped at once by a second signal of number n"],
];

export function usageText(): string {
  return `${SUMMARY}

  ${SERVE_EXAMPLE}
      Serve a server from npm at http://localhost:8080/mcp. Any command may follow --.
  claw-mcp-stdio --help
      Show the options and the other commands.
`;
}

/** @param columns the width of the terminal; undefined without one. */
export function helpText(columns: number | undefined, isFull: boolean): string {
  const width = Math.max(MIN_COLUMNS, Math.min(MAX_COLUMNS, columns ?? MAX_COLUMNS));
  const wrap = (text: string, indent = ""): string => wrapped(text, indent, width);
  const list = (entries: readonly Entry[]): string =>
    entries.map(([term, text]) => `${wrap(term, INDENT)}\n${wrap(text, DEEP_INDENT)}`).join("\n");
  const codeWidth = Math.max(...EXIT_CODES.map(([code]) => code.length)) + INDENT.length;
  const codeIndent = " ".repeat(INDENT.length + codeWidth);
  const codes = EXIT_CODES.map(([code, text]) => `${INDENT}${code.padEnd(codeWidth)}${wrap(text, codeIndent).trimStart()}`);
  const sections = [
    wrap(SUMMARY),
    `Usage:\n${list(USAGE)}`,
    `Example:\n${wrap(SERVE_EXAMPLE, INDENT)}`,
    `General:\n${list(GENERAL)}`,
    ...Object.entries(OPTION_GROUPS).flatMap(([group, all]) => {
      const options = Object.values<Option<unknown>>(all).filter((option) => isFull || COMMON_OPTIONS.includes(option));
      return options.length === 0 ? [] : [`${group}:\n${list(options.map(entryOf))}`];
    }),
    wrap(`Flags take precedence over environment variables. In descriptions, variables are named without ${VARIABLE_PREFIX}.`),
  ];
  if (isFull) sections.push(`Exit codes:\n${codes.join("\n")}`);
  else sections.push(wrap(`These are the most used of ${ALL_OPTIONS.length} options. All of them: claw-mcp-stdio --help all`));
  return `${sections.join("\n\n")}\n`;
}

function entryOf(option: Option<unknown>): Entry {
  const { flag, variable, description, defaultText } = option;
  const notes = [flag === undefined ? undefined : variable, defaultText === undefined ? undefined : `default ${defaultText}`];
  const note = notes.filter((part) => part !== undefined).join(", ");
  return [flagUsage(option) ?? variable, note === "" ? description : `${description} [${note}]`];
}

/** A word that is longer than a line has a line of its own. */
function wrapped(text: string, indent: string, width: number): string {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const line = `${lines.at(-1)} ${word}`;
    if (lines.length > 0 && line.length <= width) lines[lines.length - 1] = line;
    else lines.push(`${indent}${word}`);
  }
  return lines.join("\n");
}
