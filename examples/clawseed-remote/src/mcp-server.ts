// The tools for MCP clients, on stdio.

import { McpServer, ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import type { CallTool } from "./call-tool.ts";
import { firstLine, log } from "./log.ts";
import type { ToolRegistry } from "./registry.ts";
import { toContent } from "./tool-output.ts";

/** Changes within this time are one notification, however often devices connect. */
const ANNOUNCEMENT_PERIOD_MS = 200;

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
      if (!isKnown) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${name.slice(0, 64)}`);
      return toContent(await callTool(name, args, mcpReq.signal));
    });
    current = server;
    return server;
  };
  serveStdio(createServer, { legacy: "reject", onerror: (error) => log(`mcp: ${error.message}`) });
  let timer: NodeJS.Timeout | undefined;
  const announce = (): void => {
    timer = undefined;
    current?.server.sendToolListChanged().catch((error: unknown) => log(`tools/list_changed: ${firstLine(error)}`));
  };
  return () => void (timer ??= setTimeout(announce, ANNOUNCEMENT_PERIOD_MS));
}
