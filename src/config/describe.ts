import { CREDENTIAL_NAME, type Secrets } from "../observability/redact.ts";
import type { Config } from "./load.ts";
import { type Option, OPTION_GROUPS, VARIABLE_PREFIX } from "./option.ts";
import { OPTIONS } from "./options.ts";

const MASK = "***";
export const ALL_OPTIONS: readonly Option<unknown>[] = Object.values(OPTIONS);

/** Returns the flag as it is written on a command line, or undefined without a flag. The word after a switch would be COMMAND. */
export function flagUsage({ flag, placeholder, isSwitch }: Option<unknown>): string | undefined {
  if (flag === undefined) return undefined;
  return isSwitch ? `--${flag}[=${placeholder}]` : `--${flag} ${placeholder}`;
}

/** The longest line of the help. */
const HELP_COLUMNS = 100;
const ENTRY_INDENT = " ".repeat(6);

export function helpText(): string {
  const sections = OPTION_GROUPS.map((group) => {
    const lines = ALL_OPTIONS.filter((option) => option.group === group).map((option) => {
      const { flag, variable, description, defaultText } = option;
      const notes = [flag === undefined ? undefined : variable, defaultText === undefined ? undefined : `default ${defaultText}`];
      const note = notes.filter((part) => part !== undefined).join(", ");
      const words = [...description.split(" "), ...(note === "" ? [] : [`[${note}]`])];
      return `  ${flagUsage(option) ?? variable}\n${wrapped(words)}`;
    });
    return `${group}:\n${lines.join("\n")}`;
  });
  return `claw-mcp-stdio: puts a stdio MCP server behind Streamable HTTP, supervises it, and leaves no request
unanswered.

Usage:
  claw-mcp-stdio [options] [--] COMMAND [ARG ...]
      Serve the MCP server that COMMAND starts. Options after COMMAND are arguments of the server.
  claw-mcp-stdio [options]
      The same, with COMMAND and ARGS from the environment.
  claw-mcp-stdio discover [options] [--] COMMAND [ARG ...]
      Write or check a descriptor of the server's tools (see discover --help).
  claw-mcp-stdio healthcheck [options]
      Exit with 0 if the sidecar at the configured address is ready, else 1 (also -healthcheck).

Example:
  claw-mcp-stdio --addr 127.0.0.1:8080 -- npx -y @modelcontextprotocol/server-everything

General:
  -h, --help
      Print this text and exit.
  --version
      Print the version and exit.
  --check-config
      Print the effective configuration with secrets masked, and exit.

${sections.join("\n\n")}

Flags take precedence over environment variables. In descriptions, variables are named without
${VARIABLE_PREFIX}.

Exit codes:
  0        stopped by a signal
  1        failed, for example because the port is in use or RESTART_LIMIT is reached
  2        invalid configuration
  3        discover --check found differences
  126      COMMAND cannot be executed
  127      COMMAND does not exist
  128 + n  stopped at once by a second signal of number n
`;
}

/** Joins words to indented lines of at most HELP_COLUMNS columns. */
function wrapped(words: readonly string[]): string {
  const lines: string[] = [];
  for (const word of words) {
    const line = `${lines.at(-1)} ${word}`;
    if (lines.length > 0 && line.length <= HELP_COLUMNS) lines[lines.length - 1] = line;
    else lines.push(`${ENTRY_INDENT}${word}`);
  }
  return lines.join("\n");
}

/** Returns the effective configuration as JSON, with secrets masked. */
export function effectiveConfigText(config: Config, { replacer }: Pick<Secrets, "replacer">): string {
  const { authToken, authTokens: _, command, args, ...rest } = config;
  const masked = { ...rest, command: maskCommand(command), args: maskArgs(args), authToken: authToken === undefined ? undefined : MASK };
  return JSON.stringify(masked, replacer, 2);
}

/** The password of a URL, or the credentials of an Authorization header. */
const EMBEDDED_SECRET = /(:\/\/[^\s/:@]*:)[^\s/@]+(?=@)|(\b(?:bearer|basic) +)\S+/gi;

/** `NAME=value` or a header `Name: value` with the name of a credential, anywhere in an argument. */
const NAMED_SECRET = new RegExp(`([^=:?&\\s/]*(?:${CREDENTIAL_NAME.source})[^=:?&\\s/]*(?:=|: *))[^&\\s]+`, "gi");

/** Masks secrets in a command that, by mistake, contains a whole command line. */
export function maskCommand(command: string): string {
  return maskArgs(command.split(" ")).join(" ");
}

/** Masks the value of a flag like `--api-key`, in the same argument or the next, and secrets inside an argument. */
export function maskArgs(args: readonly string[]): string[] {
  return args.map((arg, index) => {
    const previous = args[index - 1] ?? "";
    if (previous.startsWith("-") && !previous.includes("=") && !arg.startsWith("-") && CREDENTIAL_NAME.test(previous)) return MASK;
    // The value of a flag may contain spaces.
    const [name = ""] = /^-[^=\s]*=/.exec(arg) ?? [];
    if (CREDENTIAL_NAME.test(name)) return `${name}${MASK}`;
    return arg.replace(EMBEDDED_SECRET, `$1$2${MASK}`).replace(NAMED_SECRET, `$1${MASK}`);
  });
}
