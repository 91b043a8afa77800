import { signalServer } from "./in-process-server.ts";
import { readWhere } from "./in-flight.ts";
import type { McpClient } from "./mcp-client.ts";
import type { RunningSidecar } from "./running-sidecar.ts";

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
