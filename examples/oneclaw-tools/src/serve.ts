import { once } from "node:events";
import { Readable } from "node:stream";
import { setImmediate, setTimeout } from "node:timers/promises";
import type { JSONRPCMessage } from "@modelcontextprotocol/server";
import { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { Engine } from "./engine.ts";
import { Registry } from "./registry.ts";
import { createServer } from "./server.ts";
import { readSettings } from "./settings.ts";

/** The time for a client to read the last results. */
const LAST_RESULTS_MS = 1000;

class Connection extends StdioServerTransport {
  readonly closed = Promise.withResolvers<void>();

  /** The SDK calls it too: at the end of stdin, for a line over 10 MiB, and when stdout is closed. */
  override async close(): Promise<void> {
    await super.close();
    this.closed.resolve();
  }

  /** The SDK explains invalid requests by several lines. */
  override send(message: JSONRPCMessage): Promise<void> {
    if (!("error" in message)) return super.send(message);
    return super.send({ ...message, error: { ...message.error, message: message.error.message.replaceAll(/\s+/g, " ").slice(0, 1000) } });
  }
}

/** Serves MCP on stdio until stdin ends. @param modules URLs of modules that export `tools`. @throws Error if a setting is wrong. */
export async function serve(modules: readonly string[]): Promise<never> {
  // The log may have no reader.
  process.stderr.on("error", () => {});
  // Names that no server resolves would hold all lookups of other calls. Node starts these threads when they are first needed.
  process.env["UV_THREADPOOL_SIZE"] ??= "64";
  const registry = await Registry.load(modules);
  const settings = readSettings(process.env, registry.all);
  const engine = new Engine(registry, settings, modules);
  const connection = new Connection(Readable.from(requests(engine), { objectMode: false }));
  serveStdio((context) => createServer(engine, settings, context), {
    transport: connection,
    onerror: (error) => process.stderr.write(`connection: ${error.message.split("\n", 1)[0]}\n`),
  });
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void connection.close());
  await connection.closed.promise;
  await engine.settled();
  await Promise.race([new Promise((resolve) => process.stdout.write("", resolve)), setTimeout(LAST_RESULTS_MS)]);
  process.exit();
}

/** Reads stdin, but no further while the client does not read the results. Its end, which aborts the calls, waits for their results. */
async function* requests(engine: Engine): AsyncGenerator<Buffer> {
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    if (process.stdout.writableNeedDrain) await once(process.stdout, "drain");
    yield chunk;
  }
  // Before and after, messages are under way.
  await setImmediate();
  // Each call has its time limit. Clients that do not wait send a signal: those of the SDK two seconds after they end stdin.
  await engine.settled();
  await setImmediate();
}
