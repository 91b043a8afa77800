import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { interpolate, type Pod, type Service, variablesOf } from "../compile/pod.ts";
import type { JsonObject } from "../manifest.ts";

const BUILT = fileURLToPath(new URL("../../../../dist/main.js", import.meta.url));
/** The build of this repository, or else the program that its image has. */
const CLAW = existsSync(BUILT) ? [process.execPath, BUILT] : ["claw-mcp-stdio"];

/** A service with `x-claw.mcp-stdio`. */
export interface DeclaredSidecar {
  readonly name: string;
  readonly service: Service;
  readonly command: readonly [string, ...string[]];
}

export function sidecarsIn({ services }: Pod): DeclaredSidecar[] {
  return Object.entries(services).flatMap(([name, service]) => {
    const stdio = service?.["x-claw"]?.["mcp-stdio"];
    return service === null || stdio === undefined ? [] : [{ name, service, command: [stdio.command, ...stdio.args] as const }];
  });
}

/** Starts the sidecar of a service in a folder. It ends with the stack. @returns the URL of its endpoint, when the server is ready. */
export async function startSidecar(
  { name, service, command: [program, ...args] }: DeclaredSidecar,
  folder: string,
  stack: AsyncDisposableStack,
): Promise<string> {
  const server = [program === "node" ? process.execPath : program, ...args];
  const [claw = "", ...first] = CLAW;
  const child: ChildProcess = spawn(claw, [...first, "--addr", "127.0.0.1:0", "--", ...server], {
    stdio: ["ignore", "pipe", "inherit"],
    cwd: folder,
    env: environmentOf(service),
  });
  stack.defer(async () => {
    const ended = once(child, "exit");
    if (child.exitCode === null && child.kill()) await ended;
  });
  await once(child, "spawn").catch(() => {
    throw new Error("The sidecar is not built: run `npm ci && npm run build` in the root of the repository.");
  });
  if (child.stdout === null) throw new Error("a pipe expected");
  const lines = createInterface({ input: child.stdout });
  let address: unknown;
  for await (const line of lines) {
    const logged = JSON.parse(line) as JsonObject;
    address ??= logged["address"];
    if (logged["msg"] !== "mcp server ready") continue;
    // A full pipe would block its log.
    child.stdout.resume();
    return `http://${String(address)}/mcp`;
  }
  throw new Error(`The sidecar of ${name} has ended.`);
}

/** Writes the descriptor of a sidecar that runs. @throws Error if it does not answer. */
export function discover({ name, service, command }: DeclaredSidecar, url: string, file: string): void {
  const [claw = "", ...first] = CLAW;
  const recorded = ["--service", name, ...(service.image === undefined ? [] : ["--image", service.image]), "--", ...command];
  const { status, stderr } = spawnSync(claw, [...first, "discover", "--url", url, "--out", file, ...recorded], {
    stdio: ["ignore", "ignore", "pipe"],
    encoding: "utf8",
    env: environmentOf(service),
  });
  if (status !== 0) throw new Error(`The tools of ${name} cannot be read. ${stderr?.trim() ?? `${claw} cannot be started.`}`);
}

function environmentOf(service: Service): NodeJS.ProcessEnv {
  return { ...process.env, ...Object.fromEntries(variablesOf(service).map(([name, value]) => [name, interpolate(value, process.env)])) };
}
