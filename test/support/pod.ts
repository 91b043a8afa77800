import { freePort } from "./open-sockets.ts";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { FIXTURE, MAIN, Sidecar } from "./sidecar.ts";

export interface PodOptions {
  readonly command?: string;
  readonly args?: readonly string[];
  /** The container's environment besides COMMAND, ARGS and PORT. */
  readonly env?: Readonly<Record<string, string>>;
  readonly untilReady?: boolean;
}

/** A sidecar as a pod starts it: by the container's environment alone, without arguments, at a known port. */
export class Pod implements AsyncDisposable {
  readonly sidecar: Sidecar;
  readonly origin: string;
  /** The container's whole environment. */
  readonly env: Readonly<Record<string, string>>;

  private constructor(sidecar: Sidecar, origin: string, env: Readonly<Record<string, string>>) {
    this.sidecar = sidecar;
    this.origin = origin;
    this.env = env;
  }

  static async start({ command = process.execPath, args = [FIXTURE], env = {}, untilReady = true }: PodOptions = {}): Promise<Pod> {
    const port = await freePort();
    const container = containerEnvironment({
      CLAW_MCP_STDIO_COMMAND: command,
      CLAW_MCP_STDIO_ARGS: JSON.stringify(args),
      CLAW_MCP_STDIO_PORT: String(port),
      ...env,
    });
    const sidecar = new Sidecar(spawn(process.execPath, [MAIN], { env: container, stdio: ["ignore", "pipe", "pipe"] }));
    try {
      await sidecar.waitForLog("listening");
      if (untilReady) await sidecar.waitForLog("mcp server ready");
    } catch (error) {
      await sidecar[Symbol.asyncDispose]();
      throw error;
    }
    return new Pod(sidecar, `http://127.0.0.1:${port}`, container);
  }

  get url(): string {
    return `${this.origin}/mcp`;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.sidecar[Symbol.asyncDispose]();
  }
}

/** The other variables of a container, without the test's own environment. The image sets the host. */
export function containerEnvironment(env: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const dockerfile = readFileSync(new URL("../../Dockerfile", import.meta.url), "utf8");
  const [, host = ""] = /^ENV .*\bCLAW_MCP_STDIO_HOST=(\S+)$/m.exec(dockerfile) ?? [];
  return { PATH: "/usr/local/bin:/usr/bin:/bin", HOME: "/tmp", CLAW_MCP_STDIO_HOST: host, ...env };
}
