// The load process: one scenario against one target. Takes a LoadConfig as JSON
// in its only argument and prints a LoadResult as JSON.

import { runClosedLoop } from "./closed-loop.ts";
import { HttpConnection } from "./http-connection.ts";
import { parseLoadConfig } from "./load-contract.ts";
import { McpSession } from "./mcp-session.ts";

const config = parseLoadConfig(process.argv[2] ?? "");

const opening = new HttpConnection(config.port);
const session = await McpSession.open(opening, config);
opening.close();

const connections = Array.from({ length: config.connections }, () => new HttpConnection(config.port));
const result = await runClosedLoop(connections, session, config);
for (const connection of connections) connection.close();

// A new connection: a target may have closed an idle one while the load ran.
const closing = new HttpConnection(config.port);
await session.close(closing);
closing.close();

process.stdout.write(`${JSON.stringify(result)}\n`);
