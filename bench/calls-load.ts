// The load of calls with small or large results, on connections that share a session.

import { runClosedLoop } from "./closed-loop.ts";
import { HttpConnection } from "./http-connection.ts";
import type { CallsConfig, CallsResult, Endpoint, Scenario } from "./load-contract.ts";
import { McpSession } from "./mcp-session.ts";

export async function runCalls(config: CallsConfig): Promise<CallsResult> {
  const session = await openSession(config);
  const result = await runOn(session, config);
  if (config.era === "modern") return result;
  // This connection is new, because a target may have closed an idle one during the load.
  const closing = new HttpConnection(config.port);
  await session.close(closing);
  closing.close();
  return result;
}

export async function openSession(config: Endpoint & Pick<Scenario, "era">): Promise<McpSession> {
  if (config.era === "modern") return McpSession.stateless(config);
  const opening = new HttpConnection(config.port);
  const session = await McpSession.open(opening, config);
  // As most clients do. The metrics of the sidecar distinguish listed tools only.
  await opening.exchange(session.post('{"jsonrpc":"2.0","id":"tools","method":"tools/list"}'));
  opening.close();
  return session;
}

export async function runOn(session: McpSession, config: CallsConfig): Promise<CallsResult> {
  const connections = Array.from({ length: config.connections }, () => new HttpConnection(config.port));
  const result = await runClosedLoop(connections, session, config);
  for (const connection of connections) connection.close();
  return result;
}
