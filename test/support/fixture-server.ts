import type { McpClient } from "./mcp-client.ts";
import { signalServer } from "./in-process-server.ts";
import type { RunningSidecar } from "./running-sidecar.ts";
import { rm, writeFile } from "node:fs/promises";
import { TempDir } from "./temp-dir.ts";

/** Flags for a server that starts again at once, and for one that stays away for the rest of a test. */
export const QUICK_RESTART = ["--restart-backoff-ms", "1", "--restart-max-ms", "20"];
export const NO_RESTART = ["--restart-backoff-ms", "600000", "--restart-max-ms", "600000"];

/** A client of either era. */
type Caller = Pick<McpClient, "toolText">;

/** Tools of the fixture by which tests look and act. */
const OWN_TOOLS = ["echo", "hanging", "mute", "noise", "notifications", "release", "seen", "stop_reading", "where"];

/** Returns flags for calls that time out soon, except those of the test itself: a busy machine may need longer for them. */
export function timeoutFlags(timeoutMs: number, ownTools: readonly string[] = OWN_TOOLS): string[] {
  const ownTimes = ownTools.map((name) => `${name}=600000`).join(",");
  return ["--request-timeout-ms", String(timeoutMs), "--tool-timeouts-ms", ownTimes];
}

/** Waits until `count` calls of the fixture's tool `hang` have reached the server. @returns their ids at the server. */
export async function waitForHanging(client: Caller, count: number): Promise<number[]> {
  for (;;) {
    const wireIds = JSON.parse(await client.toolText("hanging")) as number[];
    if (wireIds.length >= count) return wireIds;
  }
}

/** Returns the methods that this generation of the fixture has received, in order; a cancellation with the id that it names. */
export async function readSeen(client: Caller): Promise<string[]> {
  return JSON.parse(await client.toolText("seen")) as string[];
}

export async function waitForSeen(client: Caller, method: string): Promise<void> {
  while (!(await readSeen(client)).includes(method));
}

export async function readWhere(client: Caller): Promise<{ readonly pid: number; readonly grandchildPid?: number }> {
  return JSON.parse(await client.toolText("where")) as { pid: number; grandchildPid?: number };
}

/** Kills the shared MCP server behind the sidecar, and returns when the sidecar has noticed. */
export function crash(sidecar: RunningSidecar): Promise<void> {
  return crashProcess(sidecar, sidecar.childPid);
}

/** Kills the server of this client, shared or private, and returns when the sidecar has noticed. */
export async function crashServerOf(sidecar: RunningSidecar, client: McpClient): Promise<void> {
  const { pid } = await readWhere(client);
  await crashProcess(sidecar, pid);
}

/** Kills a server that may be unable to report its process id, and returns when the sidecar has noticed. */
export async function crashProcess(sidecar: RunningSidecar, pid: number): Promise<void> {
  signalServer(pid, "SIGKILL");
  await sidecar.waitForLog("mcp server exited", (line) => line["childPid"] === pid);
}

export function offer(capabilities: object, more: object = {}): string {
  return JSON.stringify({ protocolVersion: "2025-11-25", capabilities, serverInfo: { name: "fixture", version: "1.0.0" }, ...more });
}

/** Delays the readiness of a fixture in mode `gated` until the gate is open. */
export class Gate extends TempDir {
  readonly #path = this.file("open");

  static override async create(): Promise<Gate> {
    return new Gate(await TempDir.make());
  }

  get env(): Readonly<Record<string, string>> {
    return { FIXTURE_GATE: this.#path };
  }

  open(): Promise<void> {
    return writeFile(this.#path, "");
  }

  close(): Promise<void> {
    return rm(this.#path);
  }
}
