import { readFileSync, type Stats, statSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { bearerToken } from "./value-kinds.ts";

/** What a token file says: its tokens, each once; or why it says nothing, in words without any of its text. */
export type AuthTokenFile =
  | { readonly tokens: readonly string[]; readonly problem?: undefined }
  | { readonly tokens?: undefined; readonly problem: string };

/** A shorter token is most likely the beginning of one. */
export const MIN_TOKEN_LENGTH = 16;
/** Time between two readings of a token file. It counts if both are the same: until then it may be half written. */
export const SETTLE_MS = 200;
/** Each request is compared with every token. */
const MAX_FILE_BYTES = 64 * 1024;
/** At the start, a file that keeps changing is a problem after so many looks. */
const MAX_LOOKS = 10;
/** A file that was changed longer ago need not be looked at twice. The clock of its file system may differ a little. */
const STABLE_MS = 10_000;

/**
 * For the start: looks until two looks are the same, for two seconds at most. Never throws.
 *
 * @param path of a regular file of at most 64 KiB, in UTF-8.
 */
export function readAuthTokenFile(path: string, sleep: (ms: number) => void = sleepSync): AuthTokenFile {
  let last = look(path);
  if (isOld(path)) return last;
  for (let looks = 1; looks < MAX_LOOKS; looks++) {
    sleep(SETTLE_MS);
    const next = look(path);
    if (stateOf(next) === stateOf(last)) return next;
    last = next;
  }
  return { problem: "it keeps changing" };
}

/** Equal for files that say the same. No token has a space or a line break. */
export function stateOf({ tokens = [], problem }: AuthTokenFile): string {
  return problem === undefined ? tokens.join("\n") : ` ${problem}`;
}

function look(path: string): AuthTokenFile {
  try {
    return unfit(statSync(path)) ?? parseTokens(readFileSync(path, "utf8"));
  } catch (error) {
    return unreadable(error);
  }
}

/** To be asked after it was read: `ctime` cannot be set, as the time of modification can. */
function isOld(path: string): boolean {
  try {
    return Date.now() - statSync(path).ctimeMs > STABLE_MS;
  } catch {
    return false;
  }
}

/** At the start nothing else has to run. */
function sleepSync(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** One look, for a file system that may hang. */
export async function rereadAuthTokenFile(path: string): Promise<AuthTokenFile> {
  try {
    return unfit(await stat(path)) ?? parseTokens(await readFile(path, "utf8"));
  } catch (error) {
    return unreadable(error);
  }
}

/** One token a line. Empty lines and lines that begin with `#` do not count, nor does white space around a token. */
function parseTokens(text: string): AuthTokenFile {
  const tokens = new Set<string>();
  for (const [index, line] of text
    .replace(/^\uFEFF/, "")
    .split("\n")
    .entries()) {
    const token = line.trim();
    if (token === "" || token.startsWith("#")) continue;
    if (bearerToken.parse(token) === undefined) return { problem: `line ${index + 1} is not a token: expected ${bearerToken.expected}` };
    if (token.length < MIN_TOKEN_LENGTH) return { problem: `line ${index + 1} has fewer than ${MIN_TOKEN_LENGTH} characters` };
    tokens.add(token);
  }
  return tokens.size === 0 ? { problem: "it contains no token" } : { tokens: [...tokens] };
}

/** A pipe could be read only once, and would be waited for. */
function unfit(stats: Stats): AuthTokenFile | undefined {
  if (!stats.isFile()) return { problem: "it is not a regular file" };
  return stats.size > MAX_FILE_BYTES ? { problem: `it is larger than ${MAX_FILE_BYTES} bytes` } : undefined;
}

function unreadable(error: unknown): AuthTokenFile {
  return { problem: `it cannot be read (${(error as NodeJS.ErrnoException).code ?? "unknown error"})` };
}
