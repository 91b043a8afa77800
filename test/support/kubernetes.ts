import type { IDeployment } from "kubernetes-models/apps/v1/Deployment";
import { parse } from "yaml";
import { parseDocuments, parseExample } from "./example-files.ts";

export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
}

interface Kustomization {
  readonly resources: readonly string[];
  readonly patches: readonly { readonly target: { readonly kind: string; readonly name: string }; readonly patch: string }[];
}

/** Of RFC 6902. */
interface Operation {
  readonly op: string;
  readonly path: string;
  readonly from?: string;
  readonly value?: unknown;
}

type Parent = unknown[] | Record<string, unknown>;

export type PodSpec = NonNullable<NonNullable<IDeployment["spec"]>["template"]["spec"]>;
export type Container = PodSpec["containers"][number];

/** Returns the manifests of a file, with the patches of a kustomization applied. */
export function readManifests(path: string): readonly Manifest[] {
  if (!path.endsWith("kustomization.yaml")) return parseDocuments(path) as readonly Manifest[];
  const { resources, patches } = parseExample(path) as Kustomization;
  const manifests = resources.flatMap((resource) => readManifests(path.replace("kustomization.yaml", resource)));
  for (const { target, patch } of patches) {
    const found = manifests.findIndex(({ kind, ...rest }) => {
      const { metadata } = rest as { readonly metadata?: { readonly name?: string } };
      return kind === target.kind && metadata?.name === target.name;
    });
    manifests[found] = patched(manifests[found], parse(patch) as readonly Operation[]) as Manifest;
  }
  return manifests;
}

/** Returns the sidecar of a deployment: the first of its containers. */
export function sidecarOf({ initContainers = [], containers }: PodSpec): Container {
  const [sidecar] = [...initContainers, ...containers];
  if (sidecar === undefined) throw new Error("no container");
  return sidecar;
}

/** Returns the values of the container's variables; those from a secret are `a-key`. */
export function variablesOf({ env = [] }: Container): Record<string, string> {
  return Object.fromEntries(env.map(({ name, value }) => [name, value ?? "a-key"]));
}

function patched(document: unknown, operations: readonly Operation[]): unknown {
  const result = structuredClone(document);
  for (const { op, path, from = path, value } of operations) {
    if (op === "add") put(result, path, value);
    else if (op === "move") put(result, path, take(result, from));
    else if (op === "remove") take(result, path);
    else throw new Error(`unknown operation: ${op}`);
  }
  return result;
}

function take(document: unknown, path: string): unknown {
  const { parent, key } = placeOf(document, path);
  const value = Array.isArray(parent) ? parent[Number(key)] : parent[key];
  if (value === undefined) throw new Error(`nothing at ${path}`);
  if (Array.isArray(parent)) parent.splice(Number(key), 1);
  else delete parent[key];
  return value;
}

function put(document: unknown, path: string, value: unknown): void {
  const { parent, key } = placeOf(document, path);
  if (Array.isArray(parent)) parent.splice(key === "-" ? parent.length : Number(key), 0, value);
  else parent[key] = value;
}

function placeOf(document: unknown, path: string): { readonly parent: Parent; readonly key: string } {
  const keys = path.split("/").slice(1);
  const key = keys.pop() ?? "";
  const parent = keys.reduce((node, each) => (node as Record<string, unknown>)[each], document);
  if (typeof parent !== "object" || parent === null) throw new Error(`nothing at ${path}`);
  return { parent: parent as Parent, key };
}
