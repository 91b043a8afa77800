import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const { resolve } = createRequire(import.meta.url);

/** Returns the command of a published stdio MCP server, run by the test's own Node. */
function published(name: string, ...args: readonly string[]): readonly string[] {
  const manifestPath = resolve(`@modelcontextprotocol/server-${name}/package.json`);
  const { bin } = JSON.parse(readFileSync(manifestPath, "utf8")) as { readonly bin: Readonly<Record<string, string>> };
  const binPath = bin[`mcp-server-${name}`];
  if (binPath === undefined) throw new Error(`${manifestPath} names no program`);
  return [process.execPath, join(dirname(manifestPath), binPath), ...args];
}

export const EVERYTHING: readonly string[] = published("everything", "stdio");

/** Keeps its graph in the file that the variable MEMORY_FILE_PATH names. */
export const MEMORY: readonly string[] = published("memory");

export function filesystem(directory: string): readonly string[] {
  return published("filesystem", directory);
}
