// The tools for MCP clients, on stdio.

import { McpServer, ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import type { CallTool } from "./call-tool.ts";
import { log, quote } from "./log.ts";
import type { ToolRegistry } from "./registry.ts";
import { toContent } from "./tool-output.ts";

/** Changes within this time are one notification, however often devices connect. */
const ANNOUNCEMENT_PERIOD_MS = 250;

/**
 * Serves clients of 2026-07-28 only. So one process serves all clients of the sidecar, and only one needs the port. The sidecar translates
 * for clients with sessions.
 *
 * @returns a function that announces a change of the tools.
 */
export function serveMcp(registry: ToolRegistry, callTool: CallTool): () => void {
  let current: McpServer | undefined;
  const createServer = (): McpServer => {
    const server = new McpServer({ name: "clawseed-remote", version: "0.0.0" }, { capabilities: { tools: { listChanged: true } } });
    // Not registerTool: devices check the arguments, and the schemas of devices are not compiled here.
    server.server.setRequestHandler("tools/list", () => ({
      tools: registry.toolSpecs().map(({ name, description, parameters }) => ({ name, description, inputSchema: parameters })),
    }));
    server.server.setRequestHandler("tools/call", async ({ params: { name, arguments: args = {} } }, { mcpReq }) => {
      // The device of a name with `__` may have disconnected, which the model learns from the result.
      const isKnown = registry.getTool(name) !== undefined || name.includes("__");
      if (!isKnown) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${quote(name)}`);
      return toContent(await callTool(name, args, mcpReq.signal));
    });
    current = server;
    return server;
  };
  serveStdio(createServer, { legacy: "reject", onerror: (error) => log(`mcp: ${error.message.split("\n")[0]}`) });
  return atMostEvery(ANNOUNCEMENT_PERIOD_MS, () => {
    current?.server.sendToolListChanged().catch((error: unknown) => log(`tools/list_changed: ${String(error)}`));
  });
}

/** Returns a function that runs the action at once, and again after the period if it was called meanwhile. */
function atMostEvery(periodMs: number, action: () => void): () => void {
  let isDue = false;
  let isWaiting = false;
  const run = (): void => {
    isWaiting = isDue;
    if (!isDue) return;
    isDue = false;
    action();
    setTimeout(run, periodMs);
  };
  return () => {
    isDue = true;
    // Not before all tools of a registration are there.
    if (!isWaiting) setImmediate(run);
    isWaiting = true;
  };
}
