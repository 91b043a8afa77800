import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { EventStreamParser, type StreamBlock } from "./event-stream-parser.ts";
import { type HttpCall, type HttpReply, type JsonRpcReply, send } from "./http-client.ts";

export interface SseMessage extends JsonRpcReply {
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
}

/** Only a hang reaches it. */
const WAIT_TIMEOUT_MS = 20_000;

/** A client of HTTP+SSE (MCP 2024-11-05) in the raw: one stream to read, one URL to post to, and ids that it chooses itself. */
export class LegacySseClient implements Disposable {
  readonly response: IncomingMessage;
  /** All that has come, comments included. */
  readonly events: StreamBlock[] = [];
  /** The JSON-RPC messages among them. */
  readonly messages: SseMessage[] = [];
  /** Whether the stream was ended as it should be, and not broken off. */
  readonly ended: Promise<"complete" | "broken">;
  /** Where its messages go to. */
  url = "";
  readonly #headers: Readonly<Record<string, string>>;
  readonly #onChange = new Set<() => void>();

  private constructor(response: IncomingMessage, headers: Readonly<Record<string, string>>) {
    this.response = response;
    this.#headers = headers;
    const parser = new EventStreamParser();
    response.on("data", (chunk: Buffer) => {
      for (const event of parser.push(chunk)) this.#add(event);
      this.#changed();
    });
    // A connection that breaks is also closed, which is waited for.
    response.once("error", () => undefined);
    this.ended = new Promise((resolve) => {
      response.once("close", () => {
        resolve(response.complete ? "complete" : "broken");
        this.#changed();
      });
    });
  }

  /** With the stream open, and no session yet. */
  static async open(origin: string, headers: Readonly<Record<string, string>> = {}): Promise<LegacySseClient> {
    const request = get(`${origin}/sse`, { agent: false, headers: { Accept: "text/event-stream", ...headers } });
    const [response] = (await once(request, "response")) as [IncomingMessage];
    if (response.statusCode !== 200) throw new Error(`GET /sse: ${response.statusCode}`);
    const client = new LegacySseClient(response, headers);
    const { data = "" } = await client.waitFor(() => client.events.find(({ event }) => event === "endpoint"), "the endpoint");
    client.url = new URL(data, origin).href;
    return client;
  }

  /** With a session. */
  static async connect(
    origin: string,
    capabilities: object = {},
    headers: Readonly<Record<string, string>> = {},
  ): Promise<LegacySseClient> {
    const client = await LegacySseClient.open(origin, headers);
    await client.initialize(capabilities);
    return client;
  }

  async initialize(capabilities: object = {}): Promise<SseMessage> {
    const clientInfo = { name: "legacy", version: "1" };
    const answer = await this.request("initialize", { protocolVersion: "2024-11-05", capabilities, clientInfo });
    await this.post({ jsonrpc: "2.0", method: "notifications/initialized" });
    return answer;
  }

  /** Any body: an object is serialised, a text goes out as it is. */
  post(message: unknown, call: HttpCall = {}): Promise<HttpReply> {
    const body = typeof message === "string" ? message : JSON.stringify(message);
    return send(this.url, { ...call, body, headers: { "Content-Type": "application/json", ...this.#headers, ...call.headers } });
  }

  /** Posts a request. @returns what answers it on the stream. */
  async request(method: string, params: unknown = {}, id: string | number = 1): Promise<SseMessage> {
    const from = this.messages.length;
    const { status, body } = await this.post({ jsonrpc: "2.0", id, method, params });
    if (status !== 202) throw new Error(`${method}: ${status} ${body}`);
    return this.waitForMessage((message) => message.id === id && message.method === undefined, from);
  }

  callTool(name: string, args: object = {}, id: string | number = 2): Promise<SseMessage> {
    return this.request("tools/call", { name, arguments: args }, id);
  }

  /** The text of a tool's result. */
  async toolText(name: string, args: object = {}): Promise<string> {
    const reply = await this.callTool(name, args);
    const text = reply.result?.content?.[0]?.text;
    if (text === undefined) throw new Error(`${name}: ${JSON.stringify(reply)}`);
    return text;
  }

  /** The first message behind the first `from` ones that the predicate accepts, past or future. */
  waitForMessage(accepts: (message: SseMessage) => boolean, from = 0): Promise<SseMessage> {
    return this.waitFor(() => this.messages.slice(from).find(accepts), "the message");
  }

  /** Looks again whenever something has come, until there is something. */
  waitFor<Found>(find: () => Found | undefined, what: string): Promise<Found> {
    return new Promise((resolve, reject) => {
      const settle = (finish: () => void): void => {
        clearTimeout(timer);
        this.#onChange.delete(look);
        finish();
      };
      const fail = (why: string): void =>
        settle(() => reject(new Error(`${why} before ${what}; the stream had: ${JSON.stringify(this.events)}`)));
      const look = (): void => {
        const found = find();
        if (found !== undefined) settle(() => resolve(found));
        else if (this.response.closed) fail("end");
      };
      const timer = setTimeout(() => fail("timeout"), WAIT_TIMEOUT_MS);
      this.#onChange.add(look);
      look();
    });
  }

  /** Goes away, without a word. */
  close(): void {
    this.response.destroy();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #add(event: StreamBlock): void {
    this.events.push(event);
    if (event.event === "message") this.messages.push(JSON.parse(event.data ?? "") as SseMessage);
  }

  #changed(): void {
    for (const look of this.#onChange) look();
  }
}
