import { maskCommand } from "../config/describe.ts";
import { OPTIONS } from "../config/options.ts";
import { describeError } from "../errors.ts";

/** The largest number of wrong characters in a misspelled command of this program. */
const MAX_TYPOS = 2;

/**
 * Returns the reason why a server's command cannot be started, with advice.
 *
 * @param spawnErrorCode the error of the operating system. ENOENT means that the program, or its interpreter, does not exist.
 * @param commands the commands of this program, of which `command` may be a misspelling.
 */
export function commandFailureText(command: string, spawnErrorCode: string, commands: readonly string[]): string {
  const shown = `"${maskCommand(command)}"`;
  if (spawnErrorCode !== "ENOENT") {
    return `${shown} may not be executed, or a folder of PATH may not be searched; make the file executable, or start it by its interpreter`;
  }
  const missing = `${shown} does not exist, or its interpreter does not`;
  if (command.includes(" ")) return `${missing}; no shell splits it: put the arguments after -- or into ${OPTIONS.args.variable}`;
  const meant = commands.find((name) => typos(command, name) <= MAX_TYPOS);
  if (meant !== undefined) return `${missing}; did you mean claw-mcp-stdio ${meant}?`;
  return `${missing}; install it or ${command.includes("/") ? "correct its path" : "give its full path"}`;
}

/** Returns the message of an error at the start, with advice if the listen address is the cause. */
export function listenFailureText(error: unknown): string {
  const { code, syscall, port } = error as NodeJS.ErrnoException & { readonly port?: number };
  const text = describeError(error);
  if (code === "EADDRINUSE") return `${text}; end the program that listens on port ${port}, or choose another with --port or --addr`;
  if (syscall === "listen" || syscall === "getaddrinfo") return `${text}; give another with --addr or ${OPTIONS.addr.variable}`;
  return text;
}

/** Returns the number of characters to insert, remove or replace until `text` is `other` (the Levenshtein distance). */
function typos(text: string, other: string): number {
  let above = Array.from({ length: other.length + 1 }, (_, column) => column);
  for (const [row, character] of Array.from(text).entries()) {
    const line = [row + 1];
    for (const [column, otherCharacter] of Array.from(other).entries()) {
      const [left = 0, up = 0, diagonal = 0] = [line[column], above[column + 1], above[column]];
      line.push(Math.min(left + 1, up + 1, diagonal + (character === otherCharacter ? 0 : 1)));
    }
    above = line;
  }
  return above[other.length] ?? 0;
}
