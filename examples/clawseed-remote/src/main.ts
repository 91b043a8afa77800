// An MCP server on stdio whose tools are those of connected devices. The settings are in settings.ts.

import { toolCaller } from "./call-tool.ts";
import { Gateway } from "./gateway/gateway.ts";
import { loadHooks } from "./hooks.ts";
import { listDevices } from "./list-devices.ts";
import { firstLine, log } from "./log.ts";
import { serveMcp } from "./mcp-server.ts";
import { ToolRegistry } from "./registry.ts";
import { SettingError } from "./setting-error.ts";
import { readSettings } from "./settings.ts";

/** The time for the closing handshakes of all devices. */
const STOP_TIMEOUT_MS = 1000;

// Hooks can cause both. A rejection harms no call, but nothing is sure after an exception.
process.on("unhandledRejection", (reason) => log(`unhandled rejection: ${firstLine(reason)}`));
process.on("uncaughtException", (error) => {
  log(`uncaught exception: ${firstLine(error)}`);
  process.exit(1);
});
await start().catch((error: NodeJS.ErrnoException) => {
  const hint = error.code === "EADDRINUSE" ? ": another program, or another gateway, has this port; set GATEWAY_ADDR" : "";
  log(error.message + hint);
  process.exit(error instanceof SettingError ? 2 : 1);
});

async function start(): Promise<void> {
  if (process.argv.length > 2) throw new SettingError("there are no arguments: the settings are environment variables");
  const settings = readSettings(process.env);
  const hooks = await loadHooks(settings.hooks);
  let announce = (): void => undefined;
  const registry = new ToolRegistry(() => announce());
  const gateway = await Gateway.listen(settings, registry);
  registry.registerOrReplace(listDevices(gateway, registry), { kind: "builtIn" });
  announce = serveMcp(registry, toolCaller(registry, hooks, settings.limits));

  const stop = (): void => {
    gateway.close(() => process.exit(0));
    setTimeout(() => process.exit(0), STOP_TIMEOUT_MS);
  };
  process.stdin.once("end", stop).once("close", stop);
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, stop);
}
