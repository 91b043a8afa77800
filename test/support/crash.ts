import type { Sidecar } from "./sidecar.ts";

/** Kills the MCP server behind the sidecar; returns when the sidecar has seen it. */
export async function crash(sidecar: Sidecar): Promise<void> {
  const { childPid } = sidecar;
  process.kill(childPid, "SIGKILL");
  await sidecar.waitForLog("mcp server exited", (line) => line["childPid"] === childPid);
}
