import { readFileSync, type Stats, statSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { CREDENTIAL_NAME, MASK } from "../observe/redact.ts";
import { bearerToken } from "./option.ts";

/** Without duplicates. The problem quotes none of the text. */
export type SecretFile =
  | { readonly texts: readonly string[]; readonly problem?: undefined }
  | { readonly texts?: undefined; readonly problem: string };

/** A shorter token is most likely a part of one in a half-written file. */
export const MIN_TOKEN_LENGTH = 16;
/** Also of a token from which keys are derived. */
export const MIN_KEY_LENGTH = 32;
const MIN_LENGTHS = { token: MIN_TOKEN_LENGTH, key: MIN_KEY_LENGTH };
/** Between two reads. Until they are equal, the file may be half written. */
export const SETTLE_MS = 200;
/** Every request is compared with each token. */
const MAX_FILE_BYTES = 64 * 1024;
const MAX_READS = 10;
/** An older file is not being written. */
const NEW_MS = 10_000;

/** At the start, until two reads are equal. Never throws. @param sleep blocks the thread, because nothing else runs yet. */
export function readSecretFile(path: string, noun: keyof typeof MIN_LENGTHS, sleep: (ms: number) => void = sleepSync): SecretFile {
  let file = readOnce(path, noun);
  if (ageMs(path) > NEW_MS) return file;
  for (let reads = 1; reads < MAX_READS; reads++) {
    sleep(SETTLE_MS);
    const next = readOnce(path, noun);
    if (stateOf(next) === stateOf(file)) return next;
    file = next;
  }
  return { problem: "it keeps changing" };
}

function ageMs(path: string): number {
  try {
    // Programs can set `mtime`.
    return Date.now() - statSync(path).ctimeMs;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

function sleepSync(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

function readOnce(path: string, noun: keyof typeof MIN_LENGTHS): SecretFile {
  try {
    return unfit(statSync(path)) ?? parseTexts(readFileSync(path, "utf8"), noun);
  } catch (error) {
    return unreadable(error);
  }
}

/** Equal for equal files. A token or key contains neither a space nor a line break. */
export function stateOf({ texts = [], problem }: SecretFile): string {
  return problem === undefined ? texts.join("\n") : ` ${problem}`;
}

/** Does not block the thread if the file system hangs. */
export async function rereadSecretFile(path: string, noun: keyof typeof MIN_LENGTHS): Promise<SecretFile> {
  try {
    return unfit(await stat(path)) ?? parseTexts(await readFile(path, "utf8"), noun);
  } catch (error) {
    return unreadable(error);
  }
}

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

/** A pipe can be read only once, and a read of it blocks. */
function unfit(stats: Stats): SecretFile | undefined {
  if (!stats.isFile()) return { problem: "it is not a regular file" };
  return stats.size > MAX_FILE_BYTES ? { problem: `it is larger than ${MAX_FILE_BYTES} bytes` } : undefined;
}

function unreadable(error: unknown): SecretFile {
  return { problem: `it cannot be read (${(error as NodeJS.ErrnoException).code ?? "unknown error"})` };
}

/** A password in a URL, or credentials of an Authorization header. */
const EMBEDDED_SECRET = /(:\/\/[^\s/:@]*:)[^\s/@]+(?=@)|(\b(?:bearer|basic) +)\S+/gi;

/** `NAME=value` or a header `Name: value` with the name of a credential, anywhere in an argument. */
const NAMED_SECRET = new RegExp(`([^=:?&\\s/]*(?:${CREDENTIAL_NAME.source})[^=:?&\\s/]*(?:=|: *))[^&\\s]+`, "gi");

/** The command may contain a whole command line by mistake. */
export function maskCommand(command: string): string {
  return maskArgs(command.split(" ")).join(" ");
}

/** Also the value of a flag like `--api-key` in the next argument. */
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
