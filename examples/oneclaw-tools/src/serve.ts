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
  /** The requests that have no response yet, and are not cancelled. */
  readonly #open = new Set<unknown>();
  #onAnswered: (() => void) | undefined;

  /** Resolves when each request that was read has its response. */
  async answered(): Promise<void> {
    if (this.#open.size > 0) await new Promise<void>((resolve) => (this.#onAnswered = resolve));
  }

  override async start(): Promise<void> {
    const { onmessage } = this;
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- a transport has no other way
    this.onmessage = (message, ...rest: []) => {
      if ("method" in message && "id" in message) this.#open.add(message.id);
      if ("method" in message && message.method === "notifications/cancelled") this.#end(message.params?.["requestId"]);
      onmessage?.(message, ...rest);
    };
    await super.start();
  }

  #end(id: unknown): void {
    this.#open.delete(id);
    if (this.#open.size === 0) this.#onAnswered?.();
  }

  /** The SDK calls it too: at the end of stdin, for a line over 10 MiB, and when stdout is closed. */
  override async close(): Promise<void> {
    await super.close();
    this.closed.resolve();
  }

  /** The SDK explains invalid requests by several lines. */
  override async send(message: JSONRPCMessage): Promise<void> {
    await super.send(this.#shown(message));
    if (!("method" in message)) this.#end(message.id);
  }

  #shown(message: JSONRPCMessage): JSONRPCMessage {
    if (!("error" in message)) return message;
    return { ...message, error: { ...message.error, message: message.error.message.replaceAll(/\s+/g, " ").slice(0, 1000) } };
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
  const connection: Connection = new Connection(
    Readable.from(
      requests(() => connection.answered()),
      { objectMode: false },
    ),
  );
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

/**
 * Reads stdin, but no further while the client does not read the results. Its end, which aborts the calls, waits for their results.
 *
 * @param answered resolves when all requests have their responses.
 */
async function* requests(answered: () => Promise<void>): AsyncGenerator<Buffer> {
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    if (process.stdout.writableNeedDrain) await once(process.stdout, "drain");
    yield chunk;
  }
  // The last messages are under way.
  await setImmediate();
  // Each call has its time limit. Clients that do not wait send a signal: those of the SDK two seconds after they end stdin.
  await answered();
}
