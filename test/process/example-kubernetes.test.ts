import { execFileSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { basename, dirname } from "node:path";
import type { IDeployment } from "kubernetes-models/apps/v1/Deployment";
import type { IHorizontalPodAutoscaler } from "kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler";
import type { INetworkPolicy } from "kubernetes-models/networking.k8s.io/v1/NetworkPolicy";
import type { IPodDisruptionBudget } from "kubernetes-models/policy/v1/PodDisruptionBudget";
import type { IService } from "kubernetes-models/v1/Service";
import { describe, expect, it } from "vitest";
import { OPTIONS } from "../../src/config/options.ts";
import { serverEnvironment, startDeclared } from "../support/declared-sidecar.ts";
import { readExample } from "../support/example-files.ts";
import { send } from "../support/http-client.ts";
import { type Container, type PodSpec, readManifests, sidecarOf, variablesOf } from "../support/kubernetes.ts";
import { McpClient } from "../support/mcp-client.ts";
import { freePort } from "../support/open-sockets.ts";
import { Pod } from "../support/pod.ts";
import { Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const TOKEN = "a-token-for-the-examples";
const LIST = { jsonrpc: "2.0", id: 2, method: "tools/list" };
/** From the end of the drain to the exit, with a server that ignores SIGTERM: docs/operations/shutdown.md. */
const END_MS = 4000;

const NATIVE = "kubernetes/deployment.yaml";
const PLAIN = "kubernetes/kustomization.yaml";
const STAND_ALONE = "kubernetes/stand-alone.yaml";

function only<T extends { readonly kind: string }>(path: string, kind: T["kind"]): T {
  const found = readManifests(path).filter((manifest) => manifest.kind === kind);
  expect(found).toHaveLength(1);
  return found[0] as unknown as T;
}

function templateOf(path: string): NonNullable<IDeployment["spec"]>["template"] {
  const { spec } = only<IDeployment>(path, "Deployment");
  if (spec === undefined) throw new Error("no spec");
  return spec.template;
}

function podOf(path: string): PodSpec {
  const { spec } = templateOf(path);
  if (spec === undefined) throw new Error("no pod");
  return spec;
}

function milliseconds(container: Container, option: { readonly variable: string; readonly defaultText?: string | undefined }): number {
  return Number(variablesOf(container)[option.variable] ?? option.defaultText);
}

function portsOf({ ports = [] }: Container): Map<unknown, number> {
  return new Map(ports.map(({ name, containerPort }) => [name, containerPort]));
}

describe.each([NATIVE, PLAIN, STAND_ALONE])("examples/%s", (path) => {
  const pod = podOf(path);
  const sidecar = sidecarOf(pod);
  const variables = variablesOf(sidecar);

  it("containers have least privilege", () => {
    expect(pod).toMatchObject({ automountServiceAccountToken: false, enableServiceLinks: false });
    expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: "RuntimeDefault" } });
    for (const container of [...(pod.initContainers ?? []), ...pod.containers]) {
      expect(container.securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
    }
  });

  it("a writable /tmp is mounted, and each file that a variable names is in a mounted secret", () => {
    const mounted = new Map(
      sidecar.volumeMounts?.map(({ name, mountPath }) => [mountPath, pod.volumes?.find((each) => each.name === name)]),
    );
    expect(mounted.get("/tmp")?.emptyDir).toBeDefined();
    const named = Object.entries(variables).filter(([name]) => name.endsWith("_FILE"));
    expect(named.map(([name]) => name)).toContain(OPTIONS.authTokenFile.variable);
    const command = /kubectl create secret generic (\S+) (.*)/.exec(readExample(path === STAND_ALONE ? path : NATIVE));
    const [, secret, flags = ""] = command ?? [];
    const keys = [...flags.matchAll(/--from-(?:literal|file)=([\w-]+)/g)].map(([, key]) => key);
    for (const [, file] of named) {
      const source = mounted.get(dirname(file))?.secret;
      expect(source?.secretName).toBe(secret);
      // Without items, each key is a file.
      const files = source?.items?.map(({ key, path: at }) => ({ key, at })) ?? keys.map((key) => ({ key, at: key }));
      expect(files).toContainEqual({ key: expect.toBeOneOf(keys) as string, at: basename(file) });
    }
  });

  it("the grace period is longer than the longest shutdown", () => {
    const longestMs = milliseconds(sidecar, OPTIONS.preStopMs) + milliseconds(sidecar, OPTIONS.drainTimeoutMs) + END_MS;
    expect((pod.terminationGracePeriodSeconds ?? 0) * 1000).toBeGreaterThan(longestMs);
  });

  it("probes need no token; the sidecar is live, and ready once its server is", async () => {
    const gets = [sidecar.startupProbe, sidecar.readinessProbe, sidecar.livenessProbe].map((probe) => probe?.httpGet);
    for (const get of gets) expect(String(portsOf(sidecar).get(get?.port))).toBe(OPTIONS.port.defaultText);
    const probe = (origin: string): Promise<readonly number[]> =>
      Promise.all(gets.map(async (get) => (await send(`${origin}${get?.path}`, { method: "GET" })).status));
    const env = { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN };
    await using starting = await Sidecar.start({ mode: "silent", env, untilReady: false });
    expect(await probe(starting.origin)).toEqual([503, 503, 200]);
    await using ready = await Sidecar.start({ env });
    expect(await probe(ready.origin)).toEqual([200, 200, 200]);
  });
});

describe("the forms of a sidecar in a pod", () => {
  it("the plain form is a second container, which is served while the agent ends", () => {
    const { initContainers, containers, ...pod } = podOf(PLAIN);
    const { initContainers: [native] = [], containers: agents, ...nativePod } = podOf(NATIVE);
    const { restartPolicy: _, ...container } = native ?? { name: "" };
    const env = [...(container.env ?? []), { name: OPTIONS.preStopMs.variable, value: "10000" }];
    expect({ initContainers, containers, pod }).toEqual({ containers: [{ ...container, env }, ...agents], pod: nativePod });
  });

  it.each([NATIVE, PLAIN])("the declared server starts, and a client needs the token of the file: %s", async (path) => {
    const { CLAW_MCP_STDIO_AUTH_TOKEN_FILE: tokenFile = "", ...variables } = variablesOf(sidecarOf(podOf(path)));
    await using directory = await TempDir.create();
    const mountedFile = directory.file(basename(tokenFile));
    await writeFile(mountedFile, TOKEN);
    await using running = await startDeclared(directory, { ...variables, CLAW_MCP_STDIO_AUTH_TOKEN_FILE: mountedFile });
    await expect(new McpClient(running.url).open()).rejects.toThrow("initialize: 401");
    const environment = await serverEnvironment(running.url, { Authorization: `Bearer ${TOKEN}` });
    expect(environment).toMatchObject({ npm_lifecycle_event: "npx", PERPLEXITY_API_KEY: "a-key" });
  });
});

describe(`examples/${STAND_ALONE}`, () => {
  const deployment = only<IDeployment>(STAND_ALONE, "Deployment");
  const service = only<IService>(STAND_ALONE, "Service");
  const autoscaler = only<IHorizontalPodAutoscaler>(STAND_ALONE, "HorizontalPodAutoscaler");
  const budget = only<IPodDisruptionBudget>(STAND_ALONE, "PodDisruptionBudget");
  const policy = only<INetworkPolicy>(STAND_ALONE, "NetworkPolicy");
  const { metadata, spec: pod } = templateOf(STAND_ALONE);
  const sidecar = sidecarOf(podOf(STAND_ALONE));
  const variables = variablesOf(sidecar);

  it("each selector matches the pods", () => {
    const selectors = [
      deployment.spec?.selector.matchLabels,
      service.spec?.selector,
      budget.spec?.selector?.matchLabels,
      policy.spec?.podSelector?.matchLabels,
      ...(pod?.topologySpreadConstraints?.map(({ labelSelector }) => labelSelector?.matchLabels) ?? []),
    ];
    expect(selectors).toEqual(Array.from({ length: 6 }, () => metadata?.labels));
  });

  it("the autoscaler alone sets the number of replicas, at least three", () => {
    const { apiVersion, kind } = deployment;
    expect(autoscaler.spec.scaleTargetRef).toEqual({ apiVersion, kind, name: deployment.metadata?.name });
    // A number here would undo the autoscaler's with each apply.
    expect(deployment.spec).not.toHaveProperty("replicas");
    expect(autoscaler.spec.minReplicas).toBe(3);
    expect(autoscaler.spec.maxReplicas).toBeGreaterThan(autoscaler.spec.minReplicas ?? Infinity);
    // A share of CPU would need this, and a pod without it could be starved.
    expect(sidecar.resources?.requests).toHaveProperty("cpu");
  });

  it("each port that is named exists, and is that of the endpoint or of the metrics", () => {
    const ports = portsOf(sidecar);
    const metrics = variables[OPTIONS.adminAddr.variable]?.replace(":", "");
    expect(Object.fromEntries(ports)).toEqual({ mcp: Number(OPTIONS.port.defaultText), metrics: Number(metrics) });
    expect(service.spec?.ports?.map(({ name, targetPort }) => [name, targetPort])).toEqual([...ports.keys()].map((name) => [name, name]));
    // Clients reach the endpoint only, and the scraper the metrics only.
    expect(policy.spec?.ingress?.map((rule) => rule.ports?.map(({ port }) => port))).toEqual([["mcp"], ["metrics"]]);
    expect(policy.spec?.policyTypes).toEqual(["Ingress", "Egress"]);
  });

  it("load balancers with probes of their own notice the end while requests are served", () => {
    const { periodSeconds = 10, failureThreshold = 3 } = sidecar.readinessProbe ?? {};
    expect(milliseconds(sidecar, OPTIONS.preStopMs)).toBeGreaterThan(periodSeconds * failureThreshold * 1000);
  });

  it("two replicas with the secret of the first lines share a session, and only they", async () => {
    await using directory = await TempDir.create();
    const files = await makeSecret(directory);
    const { [OPTIONS.authTokenFile.variable]: tokenFile = "" } = variables;
    const tokens = files.get(basename(tokenFile))?.text.trim().split("\n") ?? [];
    expect(new Set(tokens)).toHaveLength(3);
    const headersOf = (line: number): { readonly Authorization: string } => ({ Authorization: `Bearer ${tokens[line]}` });
    const [headers, ofAnother, ofPrometheus] = [headersOf(0), headersOf(1), headersOf(2)] as const;
    const start = async (overrides: Readonly<Record<string, string>> = {}): Promise<Pod> => {
      const mounted = Object.entries(variables).map(([name, value]) => [name, files.get(basename(value))?.path ?? value] as const);
      const admin = { [OPTIONS.adminAddr.variable]: `127.0.0.1:${await freePort()}` };
      return Pod.start({ env: { ...Object.fromEntries(mounted), ...admin, PATH: process.env["PATH"] ?? "", ...overrides } });
    };
    await using first = await start();
    await using second = await start();
    await using other = await start({ [OPTIONS.serverName.variable]: "other" });
    await expect(new McpClient(first.url).open()).rejects.toThrow("initialize: 401");
    const { sessionId } = await new McpClient(first.url, { headers }).open();
    const list = async ({ url }: Pod, client = headers): Promise<number> =>
      (await new McpClient(url, { headers: client, sessionId }).post(LIST)).status;
    expect(await Promise.all([list(first), list(second), list(other), list(second, ofAnother)])).toEqual([200, 200, 404, 404]);
    const metrics = `http://${first.env[OPTIONS.adminAddr.variable]}/metrics`;
    expect((await send(metrics, { method: "GET", headers: ofPrometheus })).status).toBe(200);
    expect((await send(metrics, { method: "GET" })).status).toBe(401);
    expect((await send(`${first.origin}/metrics`, { method: "GET", headers: ofPrometheus })).status).toBe(404);
  });
});

/** Runs the commands of the first lines with a kubectl that prints its arguments, and writes each key of the secret as a file. */
async function makeSecret(directory: TempDir): Promise<Map<string, { readonly path: string; readonly text: string }>> {
  const commands = Array.from(readExample(STAND_ALONE).matchAll(/^# {3}(\S.*)$/gm), ([, command]) => command);
  const script = [`kubectl() { printf '%s\\n' "$@"; }`, ...commands].join("\n");
  const printed = execFileSync("bash", ["-euc", script], { cwd: directory.path, encoding: "utf8" });
  const files = new Map<string, { readonly path: string; readonly text: string }>();
  for (const [, key = ""] of printed.matchAll(/^--from-file=([\w-]+)$/gm)) {
    files.set(key, { path: directory.file(key), text: await readFile(directory.file(key), "utf8") });
  }
  for (const [, key = "", text = ""] of printed.matchAll(/^--from-literal=([\w-]+)=(.*)$/gm)) {
    files.set(key, { path: directory.file(key), text });
    await writeFile(directory.file(key), text);
  }
  return files;
}
