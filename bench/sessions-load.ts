// Opens sessions that stay idle after this process.

import { performance } from "node:perf_hooks";
import { HttpConnection } from "./http-connection.ts";
import type { SessionsConfig, SessionsResult } from "./load-contract.ts";
import { McpSession } from "./mcp-session.ts";

const CONNECTIONS = 16;

export async function runSessions(config: SessionsConfig): Promise<SessionsResult> {
  const startedAtMs = performance.now();
  let missing = config.sessions;
  const open = async (): Promise<void> => {
    const connection = new HttpConnection(config.port);
    while (missing > 0) {
      missing -= 1;
      await McpSession.open(connection, config);
    }
    connection.close();
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, open));
  return { sessionsPerSecond: (config.sessions * 1000) / (performance.now() - startedAtMs) };
}
