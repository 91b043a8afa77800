import { readWhere } from "./in-flight.ts";
import type { McpClient } from "./mcp-client.ts";
import type { Sidecar } from "./sidecar.ts";

/** Kills the shared MCP server behind the sidecar; returns when the sidecar has seen it. */
export function crash(sidecar: Sidecar): Promise<void> {
  return crashProcess(sidecar, sidecar.childPid);
}

/** The same for the server of this client, whichever that is. */
export async function crashServerOf(sidecar: Sidecar, client: McpClient): Promise<void> {
  const { pid } = await readWhere(client);
  await crashProcess(sidecar, pid);
}

/** The same for a server that may not be able to say who it is. */
export async function crashProcess(sidecar: Sidecar, pid: number): Promise<void> {
  process.kill(pid, "SIGKILL");
  await sidecar.waitForLog("mcp server exited", (line) => line["childPid"] === pid);
}
