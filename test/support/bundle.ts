import { readdirSync, readFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "..", "..");
export const DIST = join(ROOT, "dist");

export function bundleFiles(): string[] {
  return readdirSync(DIST).filter((file) => file.endsWith(".js"));
}

export function codeOf(file: string): string {
  return readFileSync(join(DIST, file), "utf8");
}

/** Returns the paths of a file's sources, relative to the root, by its source map. */
export function sourcesOf(file: string): string[] {
  const { sources } = JSON.parse(codeOf(`${file}.map`)) as { readonly sources: readonly string[] };
  return sources.map((source) => relative(ROOT, resolve(DIST, source)));
}
