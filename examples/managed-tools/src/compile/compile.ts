import { dirname } from "node:path";
import { AGENT_NAME, DEFAULT_POLICY, type ManagedTool, type Manifest, type Policy } from "../manifest.ts";
import { type Grant, type Grants, INHERITED, type Limits, Pod, type ServiceClaw } from "./pod.ts";
import { Services } from "./services.ts";
import { type Problem, Source } from "./source.ts";

export interface CompiledAgent {
  readonly name: string;
  readonly manifest: Manifest;
}

export interface Compiled {
  /** All services with a proxy, even those without tools. Empty if there are problems. */
  readonly agents: readonly CompiledAgent[];
  readonly problems: readonly Problem[];
}

/**
 * Compiles the tools of each agent of a pod. An agent has the tools that it is granted, and no others.
 *
 * @param urls the services that are not at the address that they have in the pod, such as `http://127.0.0.1:8080`.
 */
export function compile(podFile: string, environment: NodeJS.ProcessEnv, urls: ReadonlyMap<string, string> = new Map()): Compiled {
  const source = new Source(podFile);
  const pod = source.read(Pod);
  if (pod === undefined) return { agents: [], problems: source.problems };
  for (const name of urls.keys()) if (!Object.hasOwn(pod.services, name)) source.report(["services"], `the pod has no service ${name}`);
  const services = new Services(pod, source, dirname(podFile), environment, urls);
  const agents = Object.entries(pod.services).flatMap(([name, service]) => {
    const claw = service?.["x-claw"] ?? {};
    for (const key of ["cllama", "tools"])
      if (service !== null && Object.hasOwn(service, key)) source.report(["services", name, key], `${key} belongs below x-claw`);
    if (claw.cllama === undefined) {
      if (claw.tools !== undefined)
        source.report(["services", name, "x-claw", "tools"], `${name} has tools, but no cllama: tools need a proxy that executes them`);
      return [];
    }
    if (!AGENT_NAME.test(name)) {
      source.report(["services", name], `${name} cannot be the name of a folder`);
      return [];
    }
    const policy = policyOf(pod["x-claw"]?.["tools-policy"], claw["tools-policy"]);
    return [{ name, manifest: { version: 1 as const, tools: toolsOf(name, claw, pod, source, services), policy } }];
  });
  const problems = [...source.problems, ...services.problems];
  return { agents: problems.length > 0 ? [] : agents, problems };
}

/** The tools of an agent, in the order of their names: the same input gives the same bytes. */
function toolsOf(agent: string, claw: ServiceClaw, pod: Pod, source: Source, services: Services): ManagedTool[] {
  const tools = new Map<string, ManagedTool>();
  const defaults = pod["x-claw"]?.["tools-defaults"];
  const ofPod = ["x-claw", "tools-defaults"];
  const ofAgent = ["services", agent, "x-claw", "tools"];

  function addAll(grants: Grants, path: readonly PropertyKey[]): void {
    for (const [index, grant] of grants.entries()) {
      if (grant !== INHERITED) add(grant, [...path, index]);
      else if (path === ofPod) source.report([...path, index], `${INHERITED} has no meaning in tools-defaults`);
      else if (defaults === undefined) source.report([...path, index], `${INHERITED} inherits tools-defaults, which the pod lacks`);
      else addAll(defaults, ofPod);
    }
  }

  function add({ service, allow }: Grant, path: readonly PropertyKey[]): void {
    if (!Object.hasOwn(pod.services, service)) return source.report([...path, "service"], `the pod has no service ${service}`);
    const offered = services.toolsOf(service);
    if (offered === undefined) return;
    if (!offered.isSidecar && claw.surfaces?.includes(`service://${service}`) !== true)
      return source.report([...path, "service"], `${agent} may not reach ${service}: add service://${service} to its x-claw.surfaces`);
    const names = allow === "all" ? [...offered.tools.keys()] : allow;
    for (const [index, name] of names.entries()) {
      const tool = offered.tools.get(name);
      const other = tools.get(tool?.name ?? "");
      if (tool !== undefined && (other === undefined || other === tool)) tools.set(tool.name, tool);
      else if (other !== undefined)
        source.report([...path, "service"], `${service} and ${other.execution.service} both have a tool ${other.name}`);
      else
        source.report(
          [...path, "allow", index],
          `${service} has no tool ${name}; it has ${[...offered.tools.keys()].join(", ") || "none"}`,
        );
    }
  }

  if (claw.tools !== undefined) addAll(claw.tools, ofAgent);
  else if (defaults !== undefined) addAll(defaults, ofPod);
  return [...tools.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function policyOf(...limits: readonly (Limits | undefined)[]): Policy {
  const given = Object.assign({}, ...limits) as Limits;
  return {
    max_rounds: given["max-rounds"] ?? DEFAULT_POLICY.max_rounds,
    timeout_per_tool_ms: given["timeout-per-tool-ms"] ?? DEFAULT_POLICY.timeout_per_tool_ms,
    total_timeout_ms: given["total-timeout-ms"] ?? DEFAULT_POLICY.total_timeout_ms,
    max_tool_result_bytes: given["max-tool-result-bytes"] ?? DEFAULT_POLICY.max_tool_result_bytes,
  };
}
