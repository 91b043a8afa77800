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

const START_TIMEOUT_MS = 20_000;
/** Of the server's stderr, in the error. */
const MAX_LINES = 5;

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

/**
 * Starts the sidecar of a service in a folder. It ends with the stack.
 *
 * @returns the URL of its endpoint, when the server is ready.
 * @throws Error with the reason and the server's last lines, if the server exits or is not ready in time.
 */
export async function startSidecar(
  { name, service, command }: DeclaredSidecar,
  folder: string,
  stack: AsyncDisposableStack,
): Promise<string> {
  const [claw = "", ...first] = CLAW;
  const words = [claw, ...first, "--addr", "127.0.0.1:0", "--keep-trying", "off", "--", ...onThisNode(command)] as const;
  const child = startProgram(words, folder, environmentOf(service), "pipe", stack);
  await once(child, "spawn").catch(() => {
    throw new Error("The sidecar is not built: run `npm ci && npm run build` in the root of the repository.");
  });
  if (child.stdout === null) throw new Error("a pipe expected");
  let reason: string | undefined;
  const timer = setTimeout(() => {
    reason = `it is not ready after ${START_TIMEOUT_MS / 1000} s`;
    child.kill();
  }, START_TIMEOUT_MS);
  let address: unknown;
  const said: unknown[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    const logged = JSON.parse(line) as JsonObject;
    address ??= logged["address"];
    if (logged["stream"] === "stderr") said.push(logged["msg"]);
    if (logged["msg"] === "mcp server exited") reason ??= String(logged["reason"]);
    if (logged["msg"] !== "mcp server ready") continue;
    clearTimeout(timer);
    // A full pipe would block its log.
    child.stdout.resume();
    return `http://${String(address)}/mcp`;
  }
  clearTimeout(timer);
  throw new Error([`The server of ${name} cannot start: ${reason ?? "its sidecar has ended"}`, ...said.slice(-MAX_LINES)].join("\n"));
}

/** Starts a program that ends with the stack. Its stderr is that of the demo. */
export function startProgram(
  command: readonly [string, ...string[]],
  cwd: string,
  env: NodeJS.ProcessEnv,
  stdout: "pipe" | "ignore",
  stack: AsyncDisposableStack,
): ChildProcess {
  const [program, ...args] = onThisNode(command);
  const child = spawn(program, args, { stdio: ["ignore", stdout, "inherit"], cwd, env });
  stack.defer(async () => {
    const ended = once(child, "exit");
    if (child.exitCode === null && child.signalCode === null && child.kill()) await ended;
  });
  return child;
}

function onThisNode([program, ...args]: readonly [string, ...string[]]): [string, ...string[]] {
  return [program === "node" ? process.execPath : program, ...args];
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
