import { readWhere } from "./in-flight.ts";
import type { McpClient } from "./mcp-client.ts";
import type { Sidecar } from "./sidecar.ts";

/** Kills the shared MCP server behind the sidecar, and returns when the sidecar has noticed. */
export function crash(sidecar: Sidecar): Promise<void> {
  return crashProcess(sidecar, sidecar.childPid);
}

/** Kills the server of this client, shared or private, and returns when the sidecar has noticed. */
export async function crashServerOf(sidecar: Sidecar, client: McpClient): Promise<void> {
  const { pid } = await readWhere(client);
  await crashProcess(sidecar, pid);
}

/** Kills a server that may be unable to report its process id, and returns when the sidecar has noticed. */
export async function crashProcess(sidecar: Sidecar, pid: number): Promise<void> {
  process.kill(pid, "SIGKILL");
  await sidecar.waitForLog("mcp server exited", (line) => line["childPid"] === pid);
}
