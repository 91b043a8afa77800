import { randomUUID } from "node:crypto";
import { execFile, execFileSync, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { freePort } from "./open-sockets.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
/** Built by `npm run test:image`. */
export const IMAGE = "claw-mcp-stdio:test";
/** Arguments of `docker build`: the base images, if the environment pins them, as in a release. */
export const BASE_IMAGE_ARGS = ["NODE_IMAGE", "UV_IMAGE"].flatMap((name) =>
  (process.env[name] ?? "") === "" ? [] : ["--build-arg", name],
);
/** The bundled example, at its path in containers. */
export const EXAMPLE_IN_CONTAINER = ["node", "/examples/echo-server/server.js"] as const;

/** The options of a careful operator. */
export const LEAST_PRIVILEGE = "--read-only --tmpfs /tmp:exec --cap-drop ALL --security-opt no-new-privileges";
const RUN_FLAGS = [
  ...LEAST_PRIVILEGE.split(" "),
  "--volume",
  `${ROOT}examples:/examples:ro`,
  "--volume",
  `${ROOT}test/fixtures:/fixtures:ro`,
];

export interface ContainerOptions {
  /** The arguments after the name of the image. */
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly image?: string;
  /** The network; that of the host by default, so that tests need neither a published port nor the engine's bridge. */
  readonly network?: "host" | "none" | `container:${string}`;
  /** Further arguments of `docker run`. */
  readonly flags?: readonly string[];
}

interface Process {
  readonly pid: number;
  readonly name: string;
  /** One letter, as in /proc: Z is a zombie. */
  readonly state: string;
}

type LogLine = Readonly<Record<string, unknown>>;

/** An entry of the engine, at most five of which are kept. */
interface HealthCheck {
  readonly Output: string;
}

/** Vitest does not dispose of the resources of a test that timed out. */
const running = new Set<string>();
process.once("exit", () => {
  if (running.size > 0) execFileSync("docker", ["rm", "--force", ...running], { stdio: "ignore" });
});

export async function docker(...args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)("docker", args);
  return stdout.trim();
}

/** A volume for downloaded packages, made as in examples/README.md. Use with `await using`: it is removed. */
export class CacheVolume implements AsyncDisposable {
  readonly flags: readonly string[];
  readonly #name: string;

  private constructor(name: string, path: string) {
    this.#name = name;
    this.flags = ["--volume", `${name}:${path}`];
  }

  static async create(path: string): Promise<CacheVolume> {
    const volume = new CacheVolume(`claw-cache-${randomUUID()}`, path);
    // The engine creates it for root.
    await docker("run", "--rm", "--user", "0", ...volume.flags, "--entrypoint", "chown", IMAGE, "1000:1000", path);
    return volume;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await docker("volume", "rm", "--force", this.#name);
  }
}

/** A container of the image, at a free port of 127.0.0.1. Use with `await using`: it is removed. */
export class Container implements AsyncDisposable {
  readonly id: string;
  readonly origin: string;
  readonly #startedAtS: number;

  private constructor(id: string, origin: string, startedAtS: number) {
    this.id = id;
    this.origin = origin;
    this.#startedAtS = startedAtS;
    running.add(id);
  }

  static async start({ args = [], env = {}, image = IMAGE, network = "host", flags = [] }: ContainerOptions = {}): Promise<Container> {
    const startedAtS = Math.floor(Date.now() / 1000);
    const address = `127.0.0.1:${await freePort()}`;
    const variables = Object.entries({ CLAW_MCP_STDIO_ADDR: address, ...env }).flatMap(([name, value]) => ["--env", `${name}=${value}`]);
    const id = await docker("run", "--detach", "--network", network, ...RUN_FLAGS, ...flags, ...variables, image, ...args);
    return new Container(id, `http://${address}`, startedAtS);
  }

  /** Starts a container and waits until its server is ready. */
  static async startReady(options: ContainerOptions): Promise<Container> {
    const container = await Container.start(options);
    try {
      await container.waitForLog("mcp server ready");
    } catch (error) {
      await container[Symbol.asyncDispose]();
      throw error;
    }
    return container;
  }

  get url(): string {
    return `${this.origin}/mcp`;
  }

  /** Returns the first log line, past or future, with this message that the predicate accepts. */
  async waitForLog(message: string, accepts: (line: LogLine) => boolean = () => true): Promise<LogLine> {
    const isIt = (text: string): boolean => {
      const line = JSON.parse(text) as LogLine;
      return line["msg"] === message && accepts(line);
    };
    const line = await firstLine(["logs", "--follow", this.id], isIt);
    if (line === undefined) throw new Error(`the container ended before the log line "${message}":\n${await docker("logs", this.id)}`);
    return JSON.parse(line) as LogLine;
  }

  /** Waits until the engine reports this health. @returns the output of the last HEALTHCHECK. */
  async waitForHealth(status: "healthy" | "unhealthy"): Promise<string> {
    const filters = ["--filter", `container=${this.id}`, "--filter", "event=health_status"];
    const since = ["--since", String(this.#startedAtS)];
    await firstLine(["events", ...since, ...filters, "--format", "{{.Action}}"], (line) => line === `health_status: ${status}`);
    const checks = JSON.parse(await docker("inspect", "--format", "{{json .State.Health.Log}}", this.id)) as readonly HealthCheck[];
    return checks.at(-1)?.Output.trim() ?? "";
  }

  exec(...command: readonly string[]): Promise<string> {
    return docker("exec", this.id, ...command);
  }

  /** Returns the container's processes. Read from within, since an engine (`docker top`) omits zombies. */
  async processes(): Promise<readonly Process[]> {
    // The files of a process that ends meanwhile can no longer be read.
    const stats = await this.exec("sh", "-c", "cat /proc/[0-9]*/stat 2>/dev/null || true");
    return Array.from(stats.matchAll(/^(\d+) \((.*)\) (\w) /gm), ([, pid, name = "", state = ""]) => ({ pid: Number(pid), name, state }));
  }

  /** Returns the process of the MCP server, by its number in the container. */
  async serverPid(): Promise<number> {
    const reply = await fetch(`${this.origin}/readyz`);
    return ((await reply.json()) as { pid: number }).pid;
  }

  signal(name: string): Promise<string> {
    return docker("kill", "--signal", name, this.id);
  }

  async exitCode(): Promise<number> {
    return Number(await docker("wait", this.id));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await docker("rm", "--force", this.id);
    running.delete(this.id);
  }
}

/** Returns the first accepted line of a docker command that goes on printing. */
async function firstLine(args: readonly string[], accepts: (line: string) => boolean): Promise<string | undefined> {
  const follower = spawn("docker", args, { stdio: ["ignore", "pipe", "ignore"] });
  try {
    for await (const line of createInterface({ input: follower.stdout })) {
      if (accepts(line)) return line;
    }
    return undefined;
  } finally {
    follower.kill();
  }
}
