/** The reserved keys in `_meta` of the stateless revisions (MCP 2026-07-28, basic), and that of tasks (MCP 2025-11-25). */
export const MetaKey = {
  protocolVersion: "io.modelcontextprotocol/protocolVersion",
  clientCapabilities: "io.modelcontextprotocol/clientCapabilities",
  clientInfo: "io.modelcontextprotocol/clientInfo",
  logLevel: "io.modelcontextprotocol/logLevel",
  serverInfo: "io.modelcontextprotocol/serverInfo",
  relatedTask: "io.modelcontextprotocol/related-task",
  subscriptionId: "io.modelcontextprotocol/subscriptionId",
} as const;
