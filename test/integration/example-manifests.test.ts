import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { symlink, writeFile } from "node:fs/promises";
import { DCLinter } from "dclint";
import { Deployment } from "kubernetes-models/apps/v1";
import { describe, expect, it } from "vitest";
import { parse, stringify } from "yaml";
import { ROOT } from "../support/markdown.ts";
import { TempDir } from "../support/temp-dir.ts";

interface Variant {
  /** The misspelt field. */
  readonly field: string;
  readonly document: unknown;
}

/** The linter's interface; Node's resolution rules do not find the package's own types. */
interface Linter {
  lintFiles(
    paths: readonly string[],
    recursive: boolean,
  ): readonly { readonly filePath: string; readonly messages: readonly { readonly rule: string; readonly message: string }[] }[];
}

const ComposeLinter = DCLinter as new (config: object) => Linter;
/** Fields whose members the author of the document names. */
const MAPS = new Set(["labels", "matchLabels", "requests", "limits", "services", "networks", "volumes", "environment", "depends_on"]);

/** Parses as YAML 1.1, as Kubernetes does: 0440 is octal, and `on` is not text. */
function parseExample(path: string): unknown {
  return parse(readFileSync(`${ROOT}examples/${path}`, "utf8"), { version: "1.1" });
}

/** Returns the document once for each of its fields, with that field misspelt. */
function misspellings(node: unknown, isMap = false): Variant[] {
  if (Array.isArray(node)) {
    const list: readonly unknown[] = node;
    return list.flatMap((each, n) =>
      misspellings(each).map(({ field, document }) => ({ field: `${n}.${field}`, document: list.with(n, document) })),
    );
  }
  if (typeof node !== "object" || node === null) return [];
  return Object.entries(node).flatMap(([key, value]) => {
    const { [key]: _, ...others } = node as Record<string, unknown>;
    const here = isMap ? [] : [{ field: key, document: { ...others, [`${key}s`]: value as unknown } }];
    const below = misspellings(value, MAPS.has(key)).map(({ field, document }) => ({
      field: `${key}.${field}`,
      document: { ...node, [key]: document },
    }));
    return here.concat(below);
  });
}

/**
 * Returns TypeScript's error for each document as a literal of the type Deployment, or an empty string. The type rejects
 * unknown fields; the validators that come with it accept them.
 */
async function typeErrors(documents: readonly unknown[]): Promise<string[]> {
  await using directory = await TempDir.create();
  await symlink(`${ROOT}node_modules`, directory.file("node_modules"));
  const files = documents.map((_, n) => `document-${n}.ts`);
  for (const [n, file] of files.entries()) {
    const literal = `export const deployment: IDeployment = ${JSON.stringify(documents[n])};\n`;
    await writeFile(directory.file(file), `import type { IDeployment } from "kubernetes-models/apps/v1/Deployment";\n${literal}`);
  }
  const flags = ["--noEmit", "--strict", "--skipLibCheck", "--pretty", "false", "--module", "nodenext", "--target", "es2025"];
  const { stdout, status } = spawnSync(`${ROOT}node_modules/.bin/tsc`, [...flags, ...files], { cwd: directory.path, encoding: "utf8" });
  // An error outside the documents is an error of this test.
  const lines = stdout.split("\n").filter((line) => /^\S/.test(line));
  expect(lines.filter((line) => !line.startsWith("document-"))).toEqual([]);
  expect(status === 0).toBe(lines.length === 0);
  return files.map((file) => lines.find((line) => line.startsWith(`${file}(`)) ?? "");
}

/** Returns the error of the Compose schema for each document, or an empty string. */
async function schemaErrors(documents: readonly unknown[]): Promise<string[]> {
  await using directory = await TempDir.create();
  const files = documents.map((_, n) => directory.file(`compose-${n}.yaml`));
  for (const [n, file] of files.entries()) await writeFile(file, stringify(documents[n]));
  const linter = new ComposeLinter({ rules: {}, quiet: true, debug: false, exclude: [] });
  const results = linter.lintFiles(files, false);
  expect(results.map(({ filePath }) => filePath)).toEqual(files);
  return results.map(({ messages }) => messages.find(({ rule }) => rule === "invalid-schema")?.message ?? "");
}

describe.each([
  { path: "kubernetes/deployment.yaml", errors: typeErrors, fields: ["spec.template.spec.initContainers.0.readinessProbe.httpGet.path"] },
  { path: "pod/compose.yaml", errors: schemaErrors, fields: ["services.perplexity.read_only", "networks.pod.internal"] },
  { path: "observability/compose.yaml", errors: schemaErrors, fields: ["services.prometheus.volumes"] },
  { path: "managed-tools/compose.yaml", errors: schemaErrors, fields: ["services.ask.entrypoint"] },
])("examples/$path", ({ path, errors, fields }) => {
  const document = parseExample(path);

  it("the manifest has only fields of its specification", async () => {
    expect(await errors([document])).toEqual([""]);
  });

  it("a misspelling of any of its fields is rejected", async () => {
    const variants = misspellings(document);
    expect(variants.map(({ field }) => field)).toEqual(expect.arrayContaining(fields));
    const said = await errors(variants.map((variant) => variant.document));
    expect(variants.filter((_, n) => said[n] === "").map(({ field }) => field)).toEqual([]);
  });
});

describe("examples/kubernetes/deployment.yaml", () => {
  it("all values are valid for the Kubernetes API", () => {
    const deployment = parseExample("kubernetes/deployment.yaml") as ConstructorParameters<typeof Deployment>[0];
    expect(() => new Deployment(deployment).validate()).not.toThrow();
    const spec = { ...deployment?.spec, replicas: "one" } as unknown as NonNullable<typeof deployment>["spec"];
    expect(() => new Deployment({ ...deployment, spec } as typeof deployment).validate()).toThrow("replicas");
  });
});
