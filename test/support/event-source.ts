import { type IncomingHttpHeaders, type IncomingMessage, request as httpRequest } from "node:http";
import { EventStreamParser, type StreamBlock } from "./event-stream-parser.ts";
import { JSON_HEADERS, type RawClient } from "./http-client.ts";

/** A JSON-RPC message, as far as tests look into it. */
export interface WireMessage {
  readonly jsonrpc: string;
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: { readonly [key: string]: unknown; readonly content?: readonly { readonly text: string }[] };
  readonly error?: { readonly code: number; readonly message: string; readonly data?: Readonly<Record<string, unknown>> };
}

/** The token under which the reader of this request may show progress. */
export function progressTokenOf({ params }: WireMessage): unknown {
  return (params?.["_meta"] as { readonly progressToken?: unknown } | undefined)?.progressToken;
}

/** An answer of the endpoint while it is being read: a stream of events, or one JSON body. */
export class EventSource implements Disposable {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly #response: IncomingMessage;
  readonly #parser = new EventStreamParser();
  readonly #unread: StreamBlock[] = [];
  #received = Buffer.alloc(0);
  #isEnded = false;
  #onChange: (() => void) | undefined;

  private constructor(response: IncomingMessage) {
    this.status = response.statusCode ?? 0;
    this.headers = response.headers;
    this.#response = response;
    response.on("data", (chunk: Buffer) => this.#onData(chunk));
    response.once("close", () => {
      this.#isEnded = true;
      this.#onChange?.();
    });
    // A reader that leaves, or a sidecar that is killed: `close` tells it, too.
    response.on("error", () => undefined);
  }

  /** GET: the stream of a session for what belongs to no request; with a `Last-Event-ID`, the rest of any stream. */
  static get(client: RawClient, headers: Readonly<Record<string, string>> = {}): Promise<EventSource> {
    return EventSource.#open(client, "GET", undefined, { Accept: "text/event-stream", ...headers });
  }

  /** POST; resolves when the answer begins. */
  static post(client: RawClient, message: unknown, headers: Readonly<Record<string, string>> = {}): Promise<EventSource> {
    const body = typeof message === "string" ? message : JSON.stringify(message);
    return EventSource.#open(client, "POST", body, { ...JSON_HEADERS, ...headers });
  }

  static #open(
    client: RawClient,
    method: string,
    body: string | undefined,
    headers: Readonly<Record<string, string>>,
  ): Promise<EventSource> {
    const session: Record<string, string> = client.sessionId === "" ? {} : { "Mcp-Session-Id": client.sessionId };
    return new Promise((resolve, reject) => {
      // A connection of its own: a reader that leaves ends it.
      const options = { method, headers: { ...session, ...client.headers, ...headers }, agent: false };
      const request = httpRequest(client.url, options, (response) => resolve(new EventSource(response)));
      request.on("error", reject);
      request.end(body);
    });
  }

  get isStream(): boolean {
    return this.headers["content-type"] === "text/event-stream";
  }

  /** The next event, or undefined at the end of the stream. */
  async nextEvent(): Promise<StreamBlock | undefined> {
    for (;;) {
      const event = this.#unread.shift();
      if (event !== undefined || this.#isEnded) return event;
      await new Promise<void>((resolve) => (this.#onChange = resolve));
    }
  }

  /** The JSON text of the next message, or undefined at the end. Events that carry none are skipped. */
  async nextText(): Promise<string | undefined> {
    for (;;) {
      const event = await this.nextEvent();
      if (event === undefined) return undefined;
      if (event.data !== undefined && event.data !== "") return event.data;
    }
  }

  async next(): Promise<WireMessage> {
    const text = await this.nextText();
    if (text === undefined) throw new Error("the stream has ended");
    return JSON.parse(text) as WireMessage;
  }

  /** All messages that were not read, up to the end. */
  async rest(): Promise<WireMessage[]> {
    const messages: WireMessage[] = [];
    for (let text = await this.nextText(); text !== undefined; text = await this.nextText()) messages.push(JSON.parse(text) as WireMessage);
    return messages;
  }

  /** The body that is no stream, whole. */
  async body(): Promise<string> {
    while (!this.#isEnded) await new Promise<void>((resolve) => (this.#onChange = resolve));
    return this.#received.toString();
  }

  /** The last message: the response, whether it came as JSON or on a stream. */
  async answer(): Promise<WireMessage> {
    const message = this.isStream ? (await this.rest()).at(-1) : (JSON.parse(await this.body()) as WireMessage);
    if (message === undefined) throw new Error("the stream ended without an answer");
    return message;
  }

  /** The text of a tool's result. */
  async toolText(): Promise<string | undefined> {
    return (await this.answer()).result?.content?.[0]?.text;
  }

  /** Leaves: the connection is closed at once. */
  [Symbol.dispose](): void {
    this.#response.destroy();
  }

  #onData(chunk: Buffer): void {
    if (this.isStream) this.#unread.push(...this.#parser.push(chunk));
    else this.#received = Buffer.concat([this.#received, chunk]);
    this.#onChange?.();
  }
}
