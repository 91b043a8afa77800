import { Changes } from "./changes.ts";
import { EventStream } from "./event-stream.ts";
import type { StreamBlock } from "./event-stream-parser.ts";
import type { Headers } from "./http-client.ts";
import type { JsonRpcMessage } from "./json-rpc.ts";
import { initializeRequest, McpClient, type Reply } from "./mcp-client.ts";

export class LegacySseClient extends McpClient implements Disposable {
  readonly stream: EventStream;
  /** All events so far, and comments. */
  readonly events: readonly StreamBlock[];
  readonly messages: JsonRpcMessage[] = [];
  /** True if the stream ended properly, without a broken connection. */
  readonly ended: Promise<"complete" | "broken">;
  readonly #changes = new Changes();
  #isEnded = false;

  private constructor(url: string, stream: EventStream, events: StreamBlock[], headers: Headers) {
    super(url, { headers });
    this.stream = stream;
    this.events = events;
    this.ended = this.#read(events);
  }

  static async open(origin: string, headers: Headers = {}): Promise<LegacySseClient> {
    const stream = await EventStream.open(`${origin}/sse`, { headers: { Accept: "text/event-stream", ...headers } });
    if (stream.status !== 200) throw new Error(`GET /sse: ${stream.status}`);
    const first = await stream.block();
    if (first?.event !== "endpoint") throw new Error(`not the endpoint: ${JSON.stringify(first)}`);
    return new LegacySseClient(new URL(first.data ?? "", `${origin}/sse`).href, stream, [first], headers);
  }

  static async connect(origin: string, capabilities: object = {}, headers: Headers = {}): Promise<LegacySseClient> {
    const client = await LegacySseClient.open(origin, headers);
    await client.initialize(capabilities);
    return client;
  }

  /** Sends initialize and notifications/initialized. */
  override async initialize(capabilities: object = {}): Promise<JsonRpcMessage> {
    const answer = await this.#reply(initializeRequest(capabilities, "2024-11-05"), 1);
    await this.notify("notifications/initialized");
    return answer;
  }

  override postHeaders(headers: Headers = {}): Headers {
    const { Accept: _, ...others } = super.postHeaders(headers);
    return others;
  }

  /** Posts a request. @returns its response from the stream. */
  override request(method: string, params: unknown = {}, id: string | number = 1): Promise<Reply> {
    return this.#reply({ jsonrpc: "2.0", id, method, params }, id);
  }

  /** Returns the first message after `from` others that the predicate accepts, past or future. */
  waitForMessage(accepts: (message: JsonRpcMessage) => boolean, from = 0): Promise<JsonRpcMessage> {
    return this.waitFor(() => this.messages.slice(from).find(accepts), "the message");
  }

  /** Calls `find` again at each new event, until it returns a value. */
  waitFor<Found>(find: () => Found | undefined, what: string): Promise<Found> {
    const shown = (): string => `; the stream had: ${JSON.stringify(this.events)}`;
    const look = (): Found | undefined => {
      const found = find();
      if (found === undefined && this.#isEnded) throw new Error(`end before ${what}${shown()}`);
      return found;
    };
    return this.#changes.until(look, what, shown);
  }

  close(): void {
    this.stream.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  async #reply(message: object, id: string | number): Promise<Reply> {
    const from = this.messages.length;
    const { status, body } = await this.post(message);
    if (status !== 202) throw new Error(`${JSON.stringify(message)}: ${status} ${body}`);
    return { ...(await this.waitForMessage((each) => each.id === id && each.method === undefined, from)), status };
  }

  async #read(events: StreamBlock[]): Promise<"complete" | "broken"> {
    try {
      for (let block = await this.stream.block(); block !== undefined; block = await this.stream.block()) {
        events.push(block);
        if (block.event === "message") this.messages.push(JSON.parse(block.data ?? "") as JsonRpcMessage);
        this.#changes.notify();
      }
    } catch {
      // The response is incomplete then.
    }
    this.#isEnded = true;
    this.#changes.notify();
    return this.stream.response.complete ? "complete" : "broken";
  }
}
