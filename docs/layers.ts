import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

/** A part of `src/` that the compiler checks by itself: a project of `src/tsconfig.json`. */
interface Layer {
  /** A folder with a slash at its end, or the names of files. Relative to `src/`. */
  readonly name: string;
  /** The names of the layers that it references. It may import them, and all layers that they may import. */
  readonly references: readonly string[];
}

interface Project {
  readonly include?: readonly string[];
  readonly references: readonly { readonly path: string }[];
}

const SRC = join(import.meta.dirname, "..", "src");

/** Returns all layers of `src/`, each after those that it references. */
function readLayers(): Layer[] {
  return referencesOf(join(SRC, "tsconfig.json")).map((config) => ({
    name: nameOf(config),
    references: referencesOf(config).map(nameOf),
  }));
}

/** Returns the rows of the table in ARCHITECTURE.md. */
export function layersMarkdown(): string {
  const rows = readLayers().map(({ name, references }) => `| ${codeOf(name)} | ${references.map(codeOf).join(", ") || "nothing"} |`);
  return ["| layer | may import, with all that those may import |", "| --- | --- |", ...rows].join("\n");
}

function codeOf(name: string): string {
  return name
    .split(" ")
    .map((part) => `\`${part}\``)
    .join(", ");
}

function nameOf(config: string): string {
  const folder = relative(SRC, dirname(config));
  const included = readProject(config).include ?? [];
  return included.includes(".") ? `${folder}/` : included.map((file) => join(folder, file)).join(" ");
}

function referencesOf(config: string): string[] {
  return readProject(config).references.map(({ path }) => join(dirname(config), path));
}

function readProject(config: string): Project {
  return JSON.parse(readFileSync(config, "utf8")) as Project;
}
