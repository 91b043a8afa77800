import { readWhere } from "./fixture-server.ts";
import type { JsonRpcMessage } from "./json-rpc.ts";
import { ASKABLE, McpClient } from "./mcp-client.ts";
import type { LogLine, RunningSidecar } from "./running-sidecar.ts";

/**
 * A client of the fixture that distinguishes the streams. Its plain calls accept JSON alone, so that their responses never carry other
 * messages; `begin` and `openStream` read the server's messages.
 */
export class LaneClient extends McpClient {
  /** The process of its private server, if it has one. */
  childPid = 0;

  /** Connects a client that accepts server requests, and so gets a private server. */
  static async connect(sidecar: RunningSidecar, capabilities: object = ASKABLE, protocolVersion?: string): Promise<LaneClient> {
    const client = await LaneClient.connectUninitialized(sidecar, capabilities, protocolVersion);
    await client.notify("notifications/initialized");
    client.childPid = (await readWhere(client)).pid;
    return client;
  }

  /** Connects a client that declares no capabilities, and shares its server with all others. */
  static connectShared(sidecar: RunningSidecar, protocolVersion?: string): Promise<LaneClient> {
    return LaneClient.connectUninitialized(sidecar, {}, protocolVersion);
  }

  /** Connects without notifications/initialized, and without asking for the process id. */
  static async connectUninitialized(
    sidecar: RunningSidecar,
    capabilities: object = ASKABLE,
    protocolVersion?: string,
  ): Promise<LaneClient> {
    const client = new LaneClient(sidecar.url, { accept: "application/json", capabilities, protocolVersion });
    await client.initialize();
    return client;
  }

  /** Makes the server write this line, also while it is busy. */
  async write(line: object | string): Promise<void> {
    await this.notify("notifications/x-write", { line: typeof line === "string" ? line : JSON.stringify(line) });
  }

  async lines(): Promise<string[]> {
    return JSON.parse(await this.toolText("lines")) as string[];
  }

  async answers(): Promise<string[]> {
    return JSON.parse(await this.toolText("answers")) as string[];
  }

  async received(method: string): Promise<unknown[]> {
    const messages = (await this.lines()).map((line) => JSON.parse(line) as JsonRpcMessage);
    return messages.filter((message) => message.method === method).map(({ params }) => params);
  }
}

/** The kinds of lanes, for behaviours that hold for both: with the shared server and with a private one. */
export const LANES = ["shared", "private"] as const;

/** The same as a table for tests that only need a client of each kind. */
export const LANE_CLIENTS = [
  { lane: "shared", connect: (sidecar: RunningSidecar) => LaneClient.connectShared(sidecar) },
  { lane: "private", connect: (sidecar: RunningSidecar) => LaneClient.connect(sidecar) },
] as const;

export type LaneKind = (typeof LANES)[number];

export interface LaneUser {
  readonly client: LaneClient;
  /** The server's process at the time of the connection. */
  readonly childPid: number;
  /** Returns the first log line, past or future, of this lane. */
  readonly waitForLog: (message: string, accepts?: (line: LogLine) => boolean) => Promise<LogLine>;
  /** Returns the log lines of this lane so far. */
  readonly logLines: (message: string) => LogLine[];
}

/** Connects to a lane of this kind. Call it once for a sidecar. */
export async function useLane(sidecar: RunningSidecar, kind: LaneKind): Promise<LaneUser> {
  const client = await (kind === "shared" ? LaneClient.connectShared(sidecar) : LaneClient.connect(sidecar));
  const { pid } = await readWhere(client);
  const isOfLane = (line: LogLine): boolean => line["lane"] === (kind === "shared" ? undefined : "private-1");
  return {
    client,
    childPid: pid,
    waitForLog: (message, accepts = () => true) => sidecar.waitForLog(message, (line) => isOfLane(line) && accepts(line)),
    logLines: (message) => sidecar.logLines.filter((line) => line.msg === message && isOfLane(line)),
  };
}
