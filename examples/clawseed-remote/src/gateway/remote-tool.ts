import type { Arguments, Tool, ToolContext, ToolResult, ToolSpec } from "../registry.ts";
import type { DeviceConnection } from "./device-connection.ts";

/** A tool that runs on a device: "Remote Tool Call Mechanism", RemoteTool. */
export class RemoteTool implements Tool {
  readonly spec: ToolSpec;
  readonly execute: (args: Arguments, context: ToolContext) => Promise<ToolResult>;

  /** @param deviceName the name that the device uses for it. */
  constructor(spec: ToolSpec, connection: DeviceConnection, deviceName: string) {
    this.spec = spec;
    this.execute = (args, context) => connection.call(deviceName, args, context);
  }
}
