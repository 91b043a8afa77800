import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request as httpRequest } from "node:http";
import { EventStreamParser, type StreamBlock } from "./event-stream-parser.ts";
import { type HttpCall, JSON_HEADERS, type RawClient } from "./http-client.ts";

/** A message of a stream, with the id of its event. */
export interface StreamMessage {
  readonly eventId: string;
  readonly text: string;
}

/** One HTTP response with events that is still open: read block by block, as they come. */
export class EventStream implements Disposable {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly #request: ClientRequest;
  readonly #blocks: StreamBlock[] = [];
  #lastEventId = "";
  #end: Error | "ended" | undefined;
  #onChange: (() => void) | undefined;

  private constructor(request: ClientRequest, response: IncomingMessage) {
    this.status = response.statusCode ?? 0;
    this.headers = response.headers;
    this.#request = request;
    const parser = new EventStreamParser();
    const settle = (act: () => void): void => {
      try {
        act();
      } catch (error) {
        this.#end ??= error as Error;
      }
      this.#onChange?.();
    };
    response.on("data", (chunk: Buffer) => settle(() => this.#blocks.push(...parser.push(chunk))));
    response.once("end", () => settle(() => (parser.end(), (this.#end ??= "ended"))));
    response.once("error", (error) => settle(() => (this.#end ??= error)));
  }

  /** Resolves when the response begins, which is not before there is something to send. */
  static open(url: string, { method = "GET", headers = {}, body }: HttpCall): Promise<EventStream> {
    return new Promise((resolve, reject) => {
      const request = httpRequest(url, { method, headers, agent: false });
      request.once("response", (response) => resolve(new EventStream(request, response)));
      request.on("error", reject);
      request.end(body);
    });
  }

  /** The id with which the client would come back. */
  get lastEventId(): string {
    return this.#lastEventId;
  }

  /** The next block, or undefined at the end of the stream. @throws where the connection broke. */
  async next(): Promise<StreamBlock | undefined> {
    for (;;) {
      const block = this.#blocks.shift();
      if (block !== undefined) {
        this.#lastEventId = block.id ?? this.#lastEventId;
        return block;
      }
      if (this.#end === "ended") return undefined;
      if (this.#end !== undefined) throw this.#end;
      await new Promise<void>((resolve) => (this.#onChange = resolve));
    }
  }

  /** The next message; comments, and ids without one, are passed over. */
  async message(): Promise<StreamMessage | undefined> {
    for (;;) {
      const block = await this.next();
      if (block === undefined) return undefined;
      if (block.data !== undefined && block.data !== "") return { eventId: block.id ?? "", text: block.data };
    }
  }

  /** So many messages, parsed; fewer where the stream ends before. */
  async messages(count: number): Promise<unknown[]> {
    const messages: unknown[] = [];
    while (messages.length < count) {
      const message = await this.message();
      if (message === undefined) break;
      messages.push(JSON.parse(message.text));
    }
    return messages;
  }

  /** All messages to the end of the stream, parsed. */
  rest(): Promise<unknown[]> {
    return this.messages(Number.POSITIVE_INFINITY);
  }

  /** The client goes away. */
  close(): void {
    this.#request.destroy();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

export interface GetOptions {
  readonly lastEventId?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The headers of a GET of this client. */
export function getHeaders(client: RawClient, { lastEventId, headers = {} }: GetOptions = {}): Record<string, string> {
  const resumed: Record<string, string> = lastEventId === undefined ? {} : { "Last-Event-ID": lastEventId };
  return { Accept: "text/event-stream", "Mcp-Session-Id": client.sessionId, ...client.headers, ...resumed, ...headers };
}

/** Opens a stream by GET, or goes on with one. @throws where it is refused. */
export async function openStream(client: RawClient, options: GetOptions = {}): Promise<EventStream> {
  const stream = await EventStream.open(client.url, { method: "GET", headers: getHeaders(client, options) });
  if (stream.status !== 200) throw new Error(`GET: ${stream.status}`);
  return stream;
}

/** Posts a message of which the answer will be a stream. */
export function postForStream(client: RawClient, message: unknown, headers: Readonly<Record<string, string>> = {}): Promise<EventStream> {
  return EventStream.open(client.url, {
    method: "POST",
    headers: { ...JSON_HEADERS, "Mcp-Session-Id": client.sessionId, ...client.headers, ...headers },
    body: JSON.stringify(message),
  });
}
