import { execFile } from "node:child_process";
import { appendFileSync, cpSync, globSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Layer, readLayers } from "../../docs/layers.ts";
import { TempDir } from "../support/temp-dir.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const TSC = join(ROOT, "node_modules", "typescript", "bin", "tsc");
const BUILD_TIMEOUT_MS = 280_000;

const layers = readLayers();
const forbidden = layers.flatMap((layer) =>
  layers.filter((target) => target !== layer && !mayImport(layer, target)).map((target) => [layer, target] as const),
);

/** Code that a pure layer must not contain: each needs Node or a package. */
const IMPURE = [
  'import "fs";',
  'import "node:fs";',
  'import "execa";',
  'import { pino } from "pino"; export const planted = pino;',
  'export const planted = await import("express");',
  "export const planted = process.pid;",
  'export const planted = Buffer.from("");',
  "export const planted = setTimeout(() => undefined, 1);",
  "export const planted = performance.now();",
  "export const planted = crypto.randomUUID();",
];

let directory: TempDir;
let copy: string;
/** The compiler's output for the unchanged copy. */
let problems: string;

beforeAll(async () => {
  directory = await TempDir.create();
  copy = directory.path;
  for (const name of ["src", "package.json", "tsconfig.json"]) cpSync(join(ROOT, name), join(copy, name), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
  // The copy must not share its results with the original.
  const options = readFileSync(join(ROOT, "tsconfig.layer.json"), "utf8");
  writeFileSync(join(copy, "tsconfig.layer.json"), options.replace("node_modules/.cache/layers", "layers"));
  problems = await compile("--build", "src");
}, BUILD_TIMEOUT_MS);

afterAll(async () => directory[Symbol.asyncDispose]());

describe("the layers of src/", () => {
  it("the compiler accepts every import of the program", () => {
    expect(problems).toBe("");
  });

  it("every source file belongs to exactly one layer", async () => {
    const compiled = await Promise.all(layers.map(compiledFiles));
    const files = globSync("src/**/*.{ts,tsx}", { cwd: ROOT }).filter((file) => file !== "src/no-package.ts");
    expect(compiled.flat().toSorted()).toEqual(files.toSorted());
  });

  it(
    "the compiler rejects an import in every forbidden direction",
    async () => {
      expect(forbidden.length).toBeGreaterThan(layers.length);
      const accepted: string[] = [];
      for (const layer of layers) {
        const targets = forbidden.filter(([from]) => from === layer).map(([, target]) => target);
        const imports = targets.map((target) => `import "${importPath(fileOf(layer), fileOf(target))}";`);
        const found = await compileWith(layer, imports.join("\n"));
        const missed = targets.filter((target) => !found.includes(`${join(copy, fileOf(target))}' is not listed`));
        accepted.push(...missed.map((target) => `${layer.name} -> ${target.name}`));
      }
      expect(accepted).toEqual([]);
    },
    BUILD_TIMEOUT_MS,
  );

  it.each(["json/", "protocol/"])(
    "the compiler rejects Node and packages in %s",
    async (name) => {
      const layer = layers.find((each) => each.name === name);
      if (layer === undefined) throw new Error(`there is no layer ${name}`);
      for (const code of IMPURE)
        expect({ code, problems: await compileWith(layer, code) }).toEqual({
          code,
          problems: expect.stringContaining("error TS") as string,
        });
    },
    BUILD_TIMEOUT_MS,
  );
});

/** Compiles one layer of the copy with code at the end of one of its files. @returns the compiler's output. */
async function compileWith(layer: Layer, code: string): Promise<string> {
  const file = join(copy, fileOf(layer));
  const original = readFileSync(file, "utf8");
  appendFileSync(file, `\n${code}\n`);
  try {
    return await compile("--project", relative(ROOT, layer.config), "--noEmit");
  } finally {
    writeFileSync(file, original);
  }
}

/** Returns the files of a layer as the compiler sees them, relative to the root. */
async function compiledFiles({ config }: Layer): Promise<string[]> {
  const path = relative(ROOT, config);
  const { files } = JSON.parse(await compile("--project", path, "--showConfig")) as { readonly files: readonly string[] };
  return files.map((file) => join(dirname(path), file));
}

/** @returns the compiler's output, which is empty without errors. */
async function compile(...args: readonly string[]): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [TSC, ...args, "--pretty", "false"], { cwd: copy });
    return stdout;
  } catch (error) {
    return (error as { readonly stdout: string }).stdout;
  }
}

/** Returns the path of a file of a layer, relative to the root. */
function fileOf(layer: Layer): string {
  const file = globSync("src/**/*.ts", { cwd: ROOT }).find((each) => !each.endsWith(".d.ts") && layersOf(each).includes(layer));
  if (file === undefined) throw new Error(`${layer.name} has no file`);
  return file;
}

function mayImport(layer: Layer, target: Layer): boolean {
  const references = layers.filter(({ name }) => layer.references.includes(name));
  return references.includes(target) || references.some((reference) => mayImport(reference, target));
}

function layersOf(file: string): Layer[] {
  const path = relative("src", file);
  const named = layers.filter(({ name }) => name.split(" ").includes(path));
  return named.length > 0 ? named : layers.filter(({ name }) => name.endsWith("/") && path.startsWith(name));
}

function importPath(from: string, to: string): string {
  const path = relative(dirname(from), to);
  return path.startsWith(".") ? path : `./${path}`;
}
