import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { Engine } from "./engine.ts";
import { Registry } from "./registry.ts";
import { createServer } from "./server.ts";
import { readSettings } from "./settings.ts";

/** Serves MCP on stdio until stdin ends. @param modules URLs of modules that export `tools`. @throws Error if a setting is wrong. */
export async function serve(modules: readonly string[]): Promise<void> {
  const registry = await Registry.load(modules);
  const settings = readSettings(process.env, registry.names, registry.permissions);
  const engine = new Engine(registry, settings, modules);
  const connection = serveStdio((context) => createServer(engine, settings, context), {
    onerror: (error) => process.stderr.write(`connection: ${error.message.split("\n", 1)[0]}\n`),
  });
  // The end of the connection aborts its calls.
  const close = async (): Promise<never> => {
    await connection.close();
    await engine.settled();
    process.exit();
  };
  process.stdin.once("end", () => void close());
  process.stdout.once("error", () => void close());
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void close());
}
