import { spawnSync } from "node:child_process";
import { globSync } from "node:fs";
import { symlink, writeFile } from "node:fs/promises";
import { DCLinter } from "dclint";
import { Deployment } from "kubernetes-models/apps/v1";
import { HorizontalPodAutoscaler } from "kubernetes-models/autoscaling/v2";
import { NetworkPolicy } from "kubernetes-models/networking.k8s.io/v1";
import { PodDisruptionBudget } from "kubernetes-models/policy/v1";
import { Service } from "kubernetes-models/v1";
import { describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { EXAMPLES, parseExample } from "../support/example-files.ts";
import { type Manifest, readManifests } from "../support/kubernetes.ts";
import { ROOT } from "../support/markdown.ts";
import { TempDir } from "../support/temp-dir.ts";

/** The linter's interface; Node's resolution rules do not find the package's own types. */
interface Linter {
  lintFiles(
    paths: readonly string[],
    recursive: boolean,
  ): readonly { readonly filePath: string; readonly messages: readonly { readonly rule: string; readonly message: string }[] }[];
}

const MODELS = { Deployment, HorizontalPodAutoscaler, NetworkPolicy, PodDisruptionBudget, Service } as unknown as Readonly<
  Record<string, new (manifest: object) => { validate(): void }>
>;
const ComposeLinter = DCLinter as new (config: object) => Linter;

/**
 * Returns TypeScript's error for each document as a literal of its type in the API, or an empty string. The type rejects unknown
 * fields; the validators that come with it accept them.
 */
async function typeErrors({ apiVersion, kind }: Manifest, documents: readonly unknown[]): Promise<string[]> {
  await using directory = await TempDir.create();
  await symlink(`${ROOT}node_modules`, directory.file("node_modules"));
  const files = documents.map((_, n) => `document-${n}.ts`);
  for (const [n, file] of files.entries()) {
    const literal = `export const manifest: I${kind} = ${JSON.stringify(documents[n])};\n`;
    await writeFile(directory.file(file), `import type { I${kind} } from "kubernetes-models/${apiVersion}/${kind}";\n${literal}`);
  }
  const flags = ["--noEmit", "--strict", "--skipLibCheck", "--pretty", "false", "--module", "nodenext", "--target", "es2025"];
  const { stdout, status } = spawnSync(`${ROOT}node_modules/.bin/tsc`, [...flags, ...files], { cwd: directory.path, encoding: "utf8" });
  // An error outside the documents is an error of this test.
  const lines = stdout.split("\n").filter((line) => /^\S/.test(line));
  expect(lines.filter((line) => !line.startsWith("document-"))).toEqual([]);
  expect(status === 0).toBe(lines.length === 0);
  return files.map((file) => lines.find((line) => line.startsWith(`${file}(`)) ?? "");
}

async function schemaErrors(documents: readonly unknown[]): Promise<string[]> {
  await using directory = await TempDir.create();
  const files = documents.map((_, n) => directory.file(`compose-${n}.yaml`));
  for (const [n, file] of files.entries()) await writeFile(file, stringify(documents[n]));
  const linter = new ComposeLinter({ rules: {}, quiet: true, debug: false, exclude: [] });
  const results = linter.lintFiles(files, false);
  expect(results.map(({ filePath }) => filePath)).toEqual(files);
  return results.map(({ messages }) => messages.find(({ rule }) => rule === "invalid-schema")?.message ?? "");
}

function manifestOf(path: string, kind: string): Manifest {
  const found = readManifests(path).find((manifest) => manifest.kind === kind);
  if (found === undefined) throw new Error(`no ${kind} in ${path}`);
  return found;
}

function withValue(node: unknown, [key = "", ...rest]: readonly string[], value: unknown): unknown {
  const { [key]: below } = node as Readonly<Record<string, unknown>>;
  const changed = rest.length === 0 ? value : withValue(below, rest, value);
  return Array.isArray(node) ? node.with(Number(key), changed) : { ...(node as object), [key]: changed };
}

describe.each([
  { path: "pod/compose.yaml" },
  { path: "observability/compose.yaml" },
  { path: "managed-tools/compose.yaml" },
  { path: "tool-systems/compose.yaml" },
])("examples/$path", ({ path }) => {
  it("the file has only fields of its specification", async () => {
    expect(await schemaErrors([parseExample(path), { services: { a: { images: "a" } } }])).toEqual(["", expect.stringMatching(/./)]);
  });
});

const MANIFESTS = [
  { path: "kubernetes/deployment.yaml", kind: "Deployment", field: "spec.template.spec.initContainers.0.readinessProbe.httpGet.path" },
  { path: "kubernetes/kustomization.yaml", kind: "Deployment", field: "spec.template.spec.containers.1.env.0.name" },
  { path: "kubernetes/stand-alone.yaml", kind: "Deployment", field: "spec.template.spec.topologySpreadConstraints.1.matchLabelKeys" },
  { path: "kubernetes/stand-alone.yaml", kind: "Service", field: "spec.ports.0.targetPort" },
  { path: "kubernetes/stand-alone.yaml", kind: "HorizontalPodAutoscaler", field: "spec.behavior.scaleDown.policies.0.periodSeconds" },
  { path: "kubernetes/stand-alone.yaml", kind: "PodDisruptionBudget", field: "spec.unhealthyPodEvictionPolicy" },
  { path: "kubernetes/stand-alone.yaml", kind: "NetworkPolicy", field: "spec.egress.1.to.0.ipBlock.except" },
  { path: "observability/service.yaml", kind: "Service", field: "spec.clusterIP" },
];

describe.each(MANIFESTS)("examples/$path: $kind", ({ path, kind, field }) => {
  const manifest = manifestOf(path, kind);

  it("the manifest has only fields of its specification", async () => {
    const misspelt = { ...manifest, spec: undefined, specs: {} };
    expect(await typeErrors(manifest, [manifest, misspelt])).toEqual(["", expect.stringContaining("specs")]);
  });

  it("all values are valid for the Kubernetes API", () => {
    const { [kind]: Kind } = MODELS;
    if (Kind === undefined) throw new Error(`no model of ${kind}`);
    expect(() => new Kind(manifest).validate()).not.toThrow();
    const wrong = withValue(manifest, field.split("."), { not: "a value" }) as object;
    expect(() => new Kind(wrong).validate()).toThrow(field.replaceAll(".", "/"));
  });
});

describe("the examples for Kubernetes", () => {
  it("each manifest is checked here", () => {
    const all = globSync("kubernetes/*.yaml", { cwd: EXAMPLES }).flatMap((path) =>
      readManifests(path).map(({ kind }) => `${path} ${kind}`),
    );
    expect(new Set(all)).toEqual(
      new Set(MANIFESTS.filter(({ path }) => path.startsWith("kubernetes/")).map(({ path, kind }) => `${path} ${kind}`)),
    );
  });
});
