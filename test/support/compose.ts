import { randomUUID } from "node:crypto";
import { dirname, join } from "node:path";
import { Container, docker, IMAGE } from "./container.ts";
import { EXAMPLES, parseExample } from "./example-files.ts";

interface ComposeService {
  readonly image?: string;
  readonly build?: string;
  readonly entrypoint?: readonly string[];
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes?: readonly string[];
}

const SIDECAR_PORT = 8080;

/**
 * The services of a compose file, one by one, with the fields of ComposeService. The network is not that of Compose, since the engine may have none: they share the
 * loopback interface of one container, which has their names. So each sidecar has a port of its own. Use with `await using`: the containers are removed.
 */
export class ComposeServices implements AsyncDisposable {
  readonly #folder: string;
  readonly #services: Readonly<Record<string, ComposeService>>;
  readonly #network = `claw-compose-${randomUUID()}`;
  readonly #containers: Container[] = [];

  private constructor(path: string) {
    this.#folder = dirname(join(EXAMPLES, path));
    ({ services: this.#services } = parseExample(path) as { readonly services: Readonly<Record<string, ComposeService>> });
  }

  static async create(path: string): Promise<ComposeServices> {
    const services = new ComposeServices(path);
    const names = Object.keys(services.#services).flatMap((name) => ["--add-host", `${name}:127.0.0.1`]);
    const flags = ["--name", services.#network, ...names, "--entrypoint", "sleep"];
    services.#containers.push(await Container.start({ network: "none", flags, args: ["infinity"] }));
    return services;
  }

  /** Starts a service that goes on running. @param message the log line with which a sidecar is ready. */
  async start(name: string, message?: string): Promise<Container> {
    const { image, flags, args, env } = await this.#container(name);
    const container = await Container.start({ image, flags, args, env, network: `container:${this.#network}` });
    this.#containers.push(container);
    if (message !== undefined) await container.waitForLog(message);
    return container;
  }

  /** Runs a service to its end. @returns its stdout. */
  async run(name: string): Promise<string> {
    const { image, flags, args, env } = await this.#container(name);
    const variables = Object.entries(env).flatMap(([variable, value]) => ["--env", `${variable}=${value}`]);
    return docker("run", "--rm", "--network", `container:${this.#network}`, ...flags, ...variables, image, ...args);
  }

  async #container(name: string) {
    const { build, entrypoint = [], command = [], environment = {}, volumes = [] } = this.#service(name);
    const [program, ...first] = entrypoint;
    const flags = [
      ...(program === undefined ? [] : ["--entrypoint", program]),
      ...volumes.flatMap((each) => ["--volume", each.replace(/^\.\.?(?=[:/])/, (path) => join(this.#folder, path))]),
    ];
    // Variables of the shell that starts Compose are not set.
    const given = Object.entries(environment).map(([variable, value]) => [
      variable,
      this.#atOwnPorts(value.replaceAll(/\$\{\w+:-([^}]*)\}/g, "$1")),
    ]);
    return {
      image: build === undefined ? IMAGE : await this.#build(name, build),
      flags,
      args: [...first, ...command].map((each) => this.#atOwnPorts(each)),
      env: {
        CLAW_MCP_STDIO_ADDR: "",
        CLAW_MCP_STDIO_PORT: String(this.#portOf(name)),
        ...(Object.fromEntries(given) as Record<string, string>),
      },
    };
  }

  async #build(name: string, context: string): Promise<string> {
    const tag = `claw-mcp-stdio-${name}:test`;
    await docker("build", "--quiet", "--network", "host", "--build-arg", `SIDECAR=${IMAGE}`, "--tag", tag, join(this.#folder, context));
    return tag;
  }

  #service(name: string): ComposeService {
    const service = this.#services[name];
    if (service === undefined) throw new Error(`The compose file has no service ${name}.`);
    return service;
  }

  #portOf(name: string): number {
    return SIDECAR_PORT + 1 + Object.keys(this.#services).indexOf(name);
  }

  /** Returns a text with the ports of sidecars here, in place of those in the file. */
  #atOwnPorts(text: string): string {
    return Object.keys(this.#services).reduce(
      (changed, name) => changed.replaceAll(`//${name}:${SIDECAR_PORT}`, `//${name}:${this.#portOf(name)}`),
      text,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // The one with the network is the first.
    for (const container of this.#containers.toReversed()) await container[Symbol.asyncDispose]();
  }
}
