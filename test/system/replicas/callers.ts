import { Agent } from "node:http";
import { readResponse, resultText } from "../../support/json-rpc.ts";
import { McpClient } from "../../support/mcp-client.ts";
import { ModernClient } from "../../support/modern-client.ts";
import { InteropClient, type Sdk } from "../../support/sdk-clients.ts";

/** A client that calls one tool. */
export interface Caller extends AsyncDisposable {
  /** @returns the text of the result. @throws if the call was answered with an error, or not at all. */
  call(args: object): Promise<string>;
  /** @throws if the client no longer has the session of its start. */
  checkSession(): void;
}

const TOOL = "record";

/** Opens clients of each kind: most of them have a session, a few are those of an SDK, and a few have no session. */
export function openCallers(
  url: string,
  counts: { readonly raw: number; readonly sdk: number; readonly stateless: number },
): Promise<Caller[]> {
  const times = <T>(count: number, make: () => T): T[] => Array.from({ length: count }, make);
  return Promise.all([
    ...times(counts.raw, () => RawCaller.open(url)),
    ...times(counts.sdk, () => SdkCaller.open("v1", url)),
    ...times(counts.sdk, () => SdkCaller.open("v2", url)),
    ...times(counts.stateless, () => StatelessCaller.open(url)),
  ]);
}

/** A client of 2025-11-25 without capabilities, which never calls `initialize` again. */
class RawCaller implements Caller {
  readonly #agent: Agent;
  readonly #client: McpClient;
  #lastId = 0;

  private constructor(client: McpClient, agent: Agent) {
    [this.#client, this.#agent] = [client, agent];
  }

  static async open(url: string): Promise<RawCaller> {
    const agent = new Agent({ keepAlive: true });
    const client = new McpClient(url, { agent, sendsVersion: true, protocolVersion: "2025-11-25" });
    return new RawCaller(await client.open(), agent);
  }

  async call(args: object): Promise<string> {
    const id = ++this.#lastId;
    const reply = await this.#client.post({ jsonrpc: "2.0", id, method: "tools/call", params: { name: TOOL, arguments: args } });
    if (reply.status !== 200) throw new Error(`${reply.status} ${reply.body}`);
    const response = readResponse(reply);
    return response.id === id ? resultText(response) : `the response to ${response.id} instead of ${id}`;
  }

  checkSession(): void {
    // It has no other.
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.end();
    this.#agent.destroy();
  }
}

/** A client of an official SDK, which also has a GET stream. */
class SdkCaller implements Caller {
  readonly #client: InteropClient;
  readonly #sessionId: string | undefined;

  private constructor(client: InteropClient) {
    [this.#client, this.#sessionId] = [client, client.sessionId];
  }

  static async open(sdk: Sdk, url: string): Promise<SdkCaller> {
    return new SdkCaller(await InteropClient.connect(sdk, url, { lane: "shared" }));
  }

  call(args: object): Promise<string> {
    return this.#client.toolText(TOOL, { ...args });
  }

  checkSession(): void {
    const { sessionId } = this.#client;
    if (sessionId === undefined || sessionId !== this.#sessionId) throw new Error(`session ${sessionId} instead of ${this.#sessionId}`);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#client[Symbol.asyncDispose]();
  }
}

/** A client of 2026-07-28. */
class StatelessCaller implements Caller {
  readonly #agent = new Agent({ keepAlive: true });
  readonly #client: ModernClient;

  private constructor(url: string) {
    this.#client = new ModernClient(url, { agent: this.#agent });
  }

  static open(url: string): Promise<StatelessCaller> {
    return Promise.resolve(new StatelessCaller(url));
  }

  call(args: object): Promise<string> {
    return this.#client.toolText(TOOL, args);
  }

  checkSession(): void {
    // It has none.
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#agent.destroy();
    return Promise.resolve();
  }
}
