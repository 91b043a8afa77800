import { readWhere } from "./in-flight.ts";
import type { JsonRpcMessage } from "./json-rpc.ts";
import { ASKABLE, McpClient } from "./mcp-client.ts";
import type { Sidecar } from "./sidecar.ts";

/**
 * A client of the fixture that tells the streams apart. Its plain calls read JSON alone, so that no message ever goes on their answers;
 * `begin` and `openStream` read what the server sends.
 */
export class LaneClient extends McpClient {
  /** The process of its server if it has one of its own. */
  childPid = 0;

  /** One that a server may ask, and so one with a server of its own. */
  static async connect(sidecar: Sidecar, capabilities: object = ASKABLE, protocolVersion?: string): Promise<LaneClient> {
    const client = await LaneClient.connectUninitialized(sidecar, capabilities, protocolVersion);
    await client.notify("notifications/initialized");
    client.childPid = (await readWhere(client)).pid;
    return client;
  }

  /** One that cannot be asked, and shares its server with all others. */
  static connectShared(sidecar: Sidecar, protocolVersion?: string): Promise<LaneClient> {
    return LaneClient.connectUninitialized(sidecar, {}, protocolVersion);
  }

  /** Without notifications/initialized, and without asking for the process. */
  static async connectUninitialized(sidecar: Sidecar, capabilities: object = ASKABLE, protocolVersion?: string): Promise<LaneClient> {
    const client = new LaneClient(sidecar.url, { accept: "application/json", capabilities, protocolVersion });
    await client.initialize();
    return client;
  }

  /** Has the server write this line, whatever it is doing. */
  async write(line: object | string): Promise<void> {
    await this.notify("notifications/x-write", { line: typeof line === "string" ? line : JSON.stringify(line) });
  }

  /** All lines that its server has received, from the beginning. */
  async lines(): Promise<string[]> {
    return JSON.parse(await this.toolText("lines")) as string[];
  }

  /** All answers that its server has received, as they came. */
  async answers(): Promise<string[]> {
    return JSON.parse(await this.toolText("answers")) as string[];
  }

  /** The params of all requests for this method that its server has received. */
  async received(method: string): Promise<unknown[]> {
    const messages = (await this.lines()).map((line) => JSON.parse(line) as JsonRpcMessage);
    return messages.filter((message) => message.method === method).map(({ params }) => params);
  }
}
