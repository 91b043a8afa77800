// An MCP server on stdio whose tools are those of connected devices. The settings are in settings.ts.

import { toolCaller } from "./call-tool.ts";
import { Gateway } from "./gateway/gateway.ts";
import { loadHooks } from "./hooks.ts";
import { listDevices } from "./list-devices.ts";
import { log } from "./log.ts";
import { serveMcp } from "./mcp-server.ts";
import { ToolRegistry } from "./registry.ts";
import { SettingError } from "./setting-error.ts";
import { readSettings } from "./settings.ts";

try {
  await start();
} catch (error) {
  const { message, code } = error as NodeJS.ErrnoException;
  log(code === "EADDRINUSE" ? `${message}: another program, or another gateway, has this port; set GATEWAY_ADDR` : message);
  process.exit(error instanceof SettingError ? 2 : 1);
}

async function start(): Promise<void> {
  if (process.argv.length > 2) throw new SettingError("there are no arguments: the settings are environment variables");
  const settings = readSettings(process.env);
  const hooks = await loadHooks(settings.hooks);
  let announce = (): void => undefined;
  const registry = new ToolRegistry(() => announce());
  const gateway = await Gateway.listen(settings, registry);
  registry.registerOrReplace(listDevices(gateway, registry), { kind: "builtIn" });
  announce = serveMcp(registry, toolCaller(registry, hooks, settings.limits));

  const stop = (): void => void gateway.close().finally(() => process.exit(0));
  process.stdin.once("end", stop).once("close", stop);
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, stop);
}
