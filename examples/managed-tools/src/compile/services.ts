import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { type ManagedTool, TOKEN } from "../manifest.ts";
import { type DescribedTool, Descriptor, placeholdersOf } from "./descriptor.ts";
import { interpolate, type Pod, type Service, variableOf } from "./pod.ts";
import { Source } from "./source.ts";

/** The port of a sidecar that does not say otherwise. */
const SIDECAR_PORT = "8080";
const HOST_NAME = /^[A-Za-z0-9][\w.-]*$/;
const TOKEN_VARIABLE = "CLAW_MCP_STDIO_AUTH_TOKEN";

export interface ServiceTools {
  /** By the name in the descriptor. */
  readonly tools: ReadonlyMap<string, ManagedTool>;
  /** True for a sidecar. Its only purpose is to be called, so it needs no surface. */
  readonly isSidecar: boolean;
}

/** The tools of the services of a pod. The descriptor of a service is read when an agent uses it. */
export class Services {
  readonly problems: Source["problems"] = [];
  readonly #pod: Pod;
  readonly #source: Source;
  readonly #folder: string;
  readonly #environment: NodeJS.ProcessEnv;
  readonly #urls: ReadonlyMap<string, string>;
  readonly #known = new Map<string, ServiceTools | undefined>();

  /** @param urls the services that are not at the address that they have in the pod. */
  constructor(pod: Pod, source: Source, folder: string, environment: NodeJS.ProcessEnv, urls: ReadonlyMap<string, string>) {
    [this.#pod, this.#source, this.#folder, this.#environment, this.#urls] = [pod, source, folder, environment, urls];
  }

  /** Returns the tools of a service; undefined if it has no usable descriptor, which is reported once. */
  toolsOf(name: string): ServiceTools | undefined {
    if (!this.#known.has(name)) this.#known.set(name, this.#read(name, this.#pod.services[name] ?? {}));
    return this.#known.get(name);
  }

  #read(name: string, service: Service): ServiceTools | undefined {
    const claw = service["x-claw"] ?? {};
    const path = ["services", name, "x-claw"];
    const snapshot = join(this.#folder, ".claw-discovered", `${name.replaceAll(/[/\\:]/g, "-")}.claw-describe.json`);
    const written = claw["describe-file"];
    const file = written === undefined ? snapshot : resolve(this.#folder, written);
    if (written === undefined && !existsSync(file)) {
      const remedy = claw["mcp-stdio"] === undefined ? "name one with x-claw.describe-file" : recordedBy(name);
      this.#source.report(path, `${name} has no descriptor; ${remedy}`);
      return undefined;
    }
    const source = new Source(file);
    const descriptor = source.read(Descriptor);
    const tools = new Map<string, ManagedTool>();
    if (descriptor !== undefined) {
      if (written === undefined) this.#reportDrift(name, service, descriptor, source);
      const access = this.#accessOf(name, service, descriptor, source);
      for (const [index, tool] of descriptor.tools.entries()) {
        const fault = faultOf(tool, descriptor, tools);
        if (fault === undefined) tools.set(tool.name, managedTool(name, tool, descriptor, access));
        else source.report(["tools", index], `the tool ${tool.name} ${fault}`);
      }
    }
    this.problems.push(...source.problems);
    return source.problems.length > 0 ? undefined : { tools, isSidecar: claw["mcp-stdio"] !== undefined };
  }

  /** A snapshot of another command may have other tools. */
  #reportDrift(name: string, { image, "x-claw": claw }: Service, { "x-claw-discovery": discovery }: Descriptor, source: Source): void {
    const stdio = claw?.["mcp-stdio"];
    if (stdio === undefined || discovery === undefined) return;
    const differs: string[] = [];
    const compare = (what: string, recorded: unknown, own: unknown): void => {
      const [before, now] = [JSON.stringify(recorded), JSON.stringify(own)];
      if (before !== now) differs.push(`${what} ${before}, and the pod has ${now}`);
    };
    compare("command", discovery.command, stdio.command);
    compare("args", discovery.args, stdio.args);
    const own = interpolate(image ?? "", this.#environment);
    if (discovery.wrapper_image !== "") compare("image", discovery.wrapper_image, own);
    if (differs.length > 0) source.report(["x-claw-discovery"], `the snapshot is of ${differs.join(", of ")}; ${recordedBy(name)}`);
  }

  #accessOf(name: string, service: Service, { auth, mcp }: Descriptor, source: Source): Access {
    const given = this.#urls.get(name);
    const written = service.expose?.at(0)?.toString() ?? (mcp === undefined ? undefined : SIDECAR_PORT);
    const [, port] = /^(\d+)(?:\/tcp)?$/.exec(interpolate(written ?? "", this.#environment) ?? "") ?? [];
    if (given === undefined && !HOST_NAME.test(name)) this.#source.report(["services", name], `${name} cannot be the name of a host`);
    if (given === undefined && port === undefined) {
      const fault = written === undefined ? "exposes no port" : `exposes ${written}, which is not one TCP port`;
      this.#source.report(["services", name, "expose"], `${name} has tools, but ${fault}`);
    }
    const token = this.#tokenOf(name, service, auth, source);
    return { baseUrl: given ?? `http://${name}:${port}`, token };
  }

  /** The token that the descriptor declares, or else that of the sidecar. */
  #tokenOf(name: string, service: Service, auth: Descriptor["auth"], source: Source): string | undefined {
    if (auth !== undefined) {
      const declared = this.#environment[auth.env];
      if (!declared) source.report(["auth", "env"], `the variable ${auth.env} is not set`);
      else if (!TOKEN.test(declared)) source.report(["auth", "env"], `the variable ${auth.env} cannot be sent as a token`);
      return declared;
    }
    const written = variableOf(service, TOKEN_VARIABLE);
    if (written === undefined) return undefined;
    const own = interpolate(written, this.#environment);
    const fault = own === undefined ? "needs a variable that is not set" : TOKEN.test(own) ? undefined : "cannot be sent as a token";
    if (fault !== undefined) this.#source.report(["services", name, "environment"], `${TOKEN_VARIABLE} of ${name} ${fault}`);
    return own;
  }
}

function recordedBy(service: string): string {
  return `record it with claw discover ${service}, or claw-mcp-stdio discover --service ${service} --image IMAGE -- COMMAND ARG…`;
}

interface Access {
  readonly baseUrl: string;
  readonly token: string | undefined;
}

/** Returns the fault of a tool, as the rest of a sentence; undefined if it has none. */
function faultOf(
  { name, http, inputSchema }: DescribedTool,
  { mcp }: Descriptor,
  others: ReadonlyMap<string, unknown>,
): string | undefined {
  if (others.has(name)) return "is declared twice";
  if (http === undefined && mcp === undefined) return "has no http, and the descriptor has no mcp";
  if (http?.method === "GET" && http.body !== undefined) return "has a body, which GET cannot send";
  const properties = inputSchema["properties"] ?? {};
  const unknown = placeholdersOf(http?.path ?? "").find((placeholder) => !Object.hasOwn(properties, placeholder));
  return unknown === undefined ? undefined : `has {${unknown}} in its path, but no such property`;
}

function managedTool(
  service: string,
  { name, description, inputSchema, annotations, http }: DescribedTool,
  { mcp }: Descriptor,
  { baseUrl: base_url, token }: Access,
): ManagedTool {
  const auth = token === undefined ? {} : { auth: { type: "bearer" as const, token } };
  const at = { service, base_url };
  return {
    name: `${service}.${name}`,
    description,
    inputSchema,
    ...(annotations === undefined ? {} : { annotations }),
    execution:
      http === undefined
        ? { transport: "mcp", ...at, path: mcp?.path ?? "/mcp", tool: name, ...auth }
        : {
            transport: "http",
            ...at,
            method: http.method,
            path: http.path,
            ...(http.body === undefined ? {} : { body: http.body }),
            ...auth,
          },
  };
}
