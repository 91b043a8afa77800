import type { Gateway } from "./gateway/gateway.ts";
import type { Tool, ToolRegistry } from "./registry.ts";

/** The only tool of the gateway itself. It shows a model which devices it has. */
export function listDevices(gateway: Gateway, registry: ToolRegistry): Tool {
  const description = "List the devices that are connected now, with their tools, calls in flight, and dropped messages";
  return {
    spec: { name: "list_devices", description, parameters: { type: "object" } },
    execute: () => {
      const devices = gateway.devices.map(({ device, session, callsInFlight, dropped }) => {
        const tools = registry.toolNames({ kind: "remote", session });
        return { device, tools, calls_in_flight: callsInFlight, dropped_messages: dropped };
      });
      return Promise.resolve({ success: true, output: JSON.stringify(devices) });
    },
  };
}
