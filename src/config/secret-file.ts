import { readFileSync, type Stats, statSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { CREDENTIAL_NAME, MASK } from "../observe/redact.ts";
import { bearerToken } from "./option.ts";

/** The tokens or keys of a file, without duplicates; or the problem with the file, which quotes none of its text. */
export type SecretFile =
  | { readonly texts: readonly string[]; readonly problem?: undefined }
  | { readonly texts?: undefined; readonly problem: string };

/** A shorter token is most likely the beginning of a token in a half-written file. */
export const MIN_TOKEN_LENGTH = 16;
/** The minimum length of a session key, and of a token from which keys are derived. */
export const MIN_KEY_LENGTH = 32;
const MIN_LENGTHS = { token: MIN_TOKEN_LENGTH, key: MIN_KEY_LENGTH };
/** Time between two reads of a file. Its content is used once two reads are equal: until then, the file may be half written. */
export const SETTLE_MS = 200;
/** Limits the tokens, because every request is compared with each of them. */
const MAX_FILE_BYTES = 64 * 1024;
/** Reads the file at the start. Never throws. The rest of a half-written token file is read while the sidecar runs; that of keys is not. */
export function readSecretFile(path: string, noun: keyof typeof MIN_LENGTHS): SecretFile {
  try {
    return unfit(statSync(path)) ?? parseTexts(readFileSync(path, "utf8"), noun);
  } catch (error) {
    return unreadable(error);
  }
}

/** Returns a text that is equal for equal files. A token or key contains neither a space nor a line break. */
export function stateOf({ texts = [], problem }: SecretFile): string {
  return problem === undefined ? texts.join("\n") : ` ${problem}`;
}

/** Reads the file once, without blocking the thread if the file system hangs. */
export async function rereadSecretFile(path: string, noun: keyof typeof MIN_LENGTHS): Promise<SecretFile> {
  try {
    return unfit(await stat(path)) ?? parseTexts(await readFile(path, "utf8"), noun);
  } catch (error) {
    return unreadable(error);
  }
}

/** Reads one token or key per line. Ignores empty lines, lines that begin with `#`, and white space around a text. */
function parseTexts(text: string, noun: keyof typeof MIN_LENGTHS): SecretFile {
  const texts = new Set<string>();
  for (const [index, line] of text
    .replace(/^\uFEFF/, "")
    .split("\n")
    .entries()) {
    const found = line.trim();
    if (found === "" || found.startsWith("#")) continue;
    if (bearerToken.parse(found) === undefined) return { problem: `line ${index + 1} is not a ${noun}: expected ${bearerToken.expected}` };
    // SESSION_KEY separates keys by commas.
    if (noun === "key" && found.includes(","))
      return { problem: `line ${index + 1} contains a comma: write each key on a line of its own` };
    if (found.length < MIN_LENGTHS[noun]) return { problem: `line ${index + 1} has fewer than ${MIN_LENGTHS[noun]} characters` };
    texts.add(found);
  }
  return texts.size === 0 ? { problem: `it contains no ${noun}` } : { texts: [...texts] };
}

/** Rejects all but regular files: a pipe can be read only once, and a read of it blocks. */
function unfit(stats: Stats): SecretFile | undefined {
  if (!stats.isFile()) return { problem: "it is not a regular file" };
  return stats.size > MAX_FILE_BYTES ? { problem: `it is larger than ${MAX_FILE_BYTES} bytes` } : undefined;
}

function unreadable(error: unknown): SecretFile {
  return { problem: `it cannot be read (${(error as NodeJS.ErrnoException).code ?? "unknown error"})` };
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
