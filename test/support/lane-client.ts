import { EventSource, type WireMessage } from "./event-source.ts";
import { type HttpReply, RawClient } from "./http-client.ts";
import type { Sidecar } from "./sidecar.ts";

/** All that a server may ask a client for. */
const ASKABLE = { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } };

export function initializeRequest(capabilities: object = ASKABLE, protocolVersion = "2025-11-25"): object {
  const params = { protocolVersion, capabilities, clientInfo: { name: "raw", version: "1" } };
  return { jsonrpc: "2.0", id: 1, method: "initialize", params };
}

/**
 * A client that tells the streams apart. Its plain calls read JSON alone, so that no message ever goes on their answers; `begin` and
 * `stream` read what the server sends.
 */
export class LaneClient extends RawClient {
  /** The process of its server, where it has one of its own. */
  readonly childPid: number;

  private constructor(url: string, sessionId: string, childPid: number) {
    super(url, { Accept: "application/json" });
    this.sessionId = sessionId;
    this.childPid = childPid;
  }

  /** One that a server may ask, and so one with a server of its own. */
  static async connect(sidecar: Sidecar, capabilities: object = ASKABLE, protocolVersion?: string): Promise<LaneClient> {
    const unnamed = await LaneClient.connectUninitialized(sidecar, capabilities, protocolVersion);
    await unnamed.post({ jsonrpc: "2.0", method: "notifications/initialized" });
    const { pid } = JSON.parse(await unnamed.toolText("where")) as { pid: number };
    return new LaneClient(sidecar.url, unnamed.sessionId, pid);
  }

  /** One that cannot be asked, and shares its server with all others. */
  static connectShared(sidecar: Sidecar, protocolVersion?: string): Promise<LaneClient> {
    return LaneClient.connectUninitialized(sidecar, {}, protocolVersion);
  }

  /** Without notifications/initialized, and without asking for the process. */
  static async connectUninitialized(sidecar: Sidecar, capabilities: object = ASKABLE, protocolVersion?: string): Promise<LaneClient> {
    const reply = await new RawClient(sidecar.url).post(initializeRequest(capabilities, protocolVersion));
    if (reply.status !== 200) throw new Error(`initialize: ${reply.status} ${reply.body}`);
    return new LaneClient(sidecar.url, String(reply.headers["mcp-session-id"]), 0);
  }

  /** Its GET stream. */
  stream(lastEventId?: string): Promise<EventSource> {
    return EventSource.get(this, lastEventId === undefined ? {} : { "Last-Event-ID": lastEventId });
  }

  /** A tool call; resolves when the answer begins. */
  begin(name: string, args: object = {}, id: string | number = 2, meta?: object): Promise<EventSource> {
    const params = { name, arguments: args, ...(meta === undefined ? {} : { _meta: meta }) };
    return EventSource.post(this, { jsonrpc: "2.0", id, method: "tools/call", params });
  }

  /** Any request, as JSON text; resolves when the answer begins. */
  beginText(text: string): Promise<EventSource> {
    return EventSource.post(this, text);
  }

  /** Has the server write this line, whatever it is doing. */
  async write(line: object | string): Promise<void> {
    const params = { line: typeof line === "string" ? line : JSON.stringify(line) };
    await this.post({ jsonrpc: "2.0", method: "notifications/x-write", params });
  }

  /** Answers a request of the server. */
  answer({ id }: WireMessage, result: object = {}): Promise<HttpReply> {
    return this.post({ jsonrpc: "2.0", id, result });
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
    const messages = (await this.lines()).map((line) => JSON.parse(line) as WireMessage);
    return messages.filter((message) => message.method === method).map(({ params }) => params);
  }

  end(): Promise<HttpReply> {
    return this.post("", { method: "DELETE" });
  }
}
