import { readFileSync, type Stats, statSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { bearerToken } from "./value-kinds.ts";

/** What a token file says: its tokens, each once; or why it says nothing, in words without any of its text. */
export type AuthTokenFile =
  | { readonly tokens: readonly string[]; readonly problem?: undefined }
  | { readonly tokens?: undefined; readonly problem: string };

/** Each request is compared with every token. */
const MAX_FILE_BYTES = 64 * 1024;

/** Never throws. @param path of a regular file of at most 64 KiB, in UTF-8. */
export function readAuthTokenFile(path: string): AuthTokenFile {
  try {
    return unfit(statSync(path)) ?? parseTokens(readFileSync(path, "utf8"));
  } catch (error) {
    return unreadable(error);
  }
}

/** As `readAuthTokenFile`, for a file system that may hang. */
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
    if (bearerToken.parse(token) === undefined) return { problem: `line ${index + 1} is no token: allowed is ${bearerToken.allowed}` };
    tokens.add(token);
  }
  return tokens.size === 0 ? { problem: "it has no token" } : { tokens: [...tokens] };
}

/** A pipe could be read only once, and would be waited for. */
function unfit(stats: Stats): AuthTokenFile | undefined {
  if (!stats.isFile()) return { problem: "it is no regular file" };
  return stats.size > MAX_FILE_BYTES ? { problem: `it is larger than ${MAX_FILE_BYTES} bytes` } : undefined;
}

function unreadable(error: unknown): AuthTokenFile {
  return { problem: `it cannot be read (${(error as NodeJS.ErrnoException).code ?? "unknown error"})` };
}
