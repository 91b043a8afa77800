import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { EventStreamParser, type StreamBlock } from "./event-stream-parser.ts";
import { type HttpCall, startRequest } from "./http-client.ts";
import { type JsonRpcMessage, resultText } from "./json-rpc.ts";

/** An HTTP response while it is being read: a stream of events, or one body. */
export class EventStream implements Disposable {
  readonly response: IncomingMessage;
  readonly #parser = new EventStreamParser();
  readonly #blocks: StreamBlock[] = [];
  readonly #chunks: Buffer[] = [];
  #lastEventId = "";
  #end: Error | "ended" | undefined;
  #onChange: (() => void) | undefined;

  private constructor(response: IncomingMessage) {
    this.response = response;
    response.on("data", (chunk: Buffer) => this.#settle(() => this.#read(chunk)));
    response.once("end", () => this.#settle(() => this.isStream && this.#parser.end()));
    response.once("error", (error) => this.#settle(() => (this.#end ??= error)));
    response.once("close", () => this.#settle(() => (this.#end ??= "ended")));
  }

  /** Resolves when the response begins, which is not before the server has something to send. */
  static async open(url: string, call: HttpCall): Promise<EventStream> {
    // Uses its own connection, since a client that stops reading closes it.
    return new EventStream(await startRequest(url, { method: "GET", agent: false, ...call }).response);
  }

  get status(): number {
    return this.response.statusCode ?? 0;
  }

  get headers(): IncomingHttpHeaders {
    return this.response.headers;
  }

  get isStream(): boolean {
    return this.headers["content-type"] === "text/event-stream";
  }

  /** The id with which the client would resume the stream. */
  get lastEventId(): string {
    return this.#lastEventId;
  }

  /** Returns the next event or comment, or undefined at the end of the stream. @throws if the connection broke. */
  async block(): Promise<StreamBlock | undefined> {
    for (;;) {
      const block = this.#blocks.shift();
      if (block !== undefined) {
        this.#lastEventId = block.id ?? this.#lastEventId;
        return block;
      }
      if (await this.#isOver()) return undefined;
    }
  }

  /** Returns the JSON text of the next message, or undefined at the end. Skips comments and events without a message. */
  async nextText(): Promise<string | undefined> {
    for (;;) {
      const block = await this.block();
      if (block === undefined) return undefined;
      if (block.data !== undefined && block.data !== "") return block.data;
    }
  }

  async next(): Promise<JsonRpcMessage> {
    const text = await this.nextText();
    if (text === undefined) throw new Error("the stream has ended");
    return JSON.parse(text) as JsonRpcMessage;
  }

  async messages(count: number): Promise<JsonRpcMessage[]> {
    const messages: JsonRpcMessage[] = [];
    while (messages.length < count) {
      const text = await this.nextText();
      if (text === undefined) break;
      messages.push(JSON.parse(text) as JsonRpcMessage);
    }
    return messages;
  }

  /** Returns all unread messages, up to the end of the stream. */
  rest(): Promise<JsonRpcMessage[]> {
    return this.messages(Number.POSITIVE_INFINITY);
  }

  /** Returns the last message: the response, either as JSON or on a stream. */
  async answer(): Promise<JsonRpcMessage> {
    const message = this.isStream ? (await this.rest()).at(-1) : (JSON.parse(await this.body()) as JsonRpcMessage);
    if (message === undefined) throw new Error("the stream ended without an answer");
    return message;
  }

  async toolText(): Promise<string> {
    return resultText(await this.answer());
  }

  async body(): Promise<string> {
    while (!(await this.#isOver()));
    return Buffer.concat(this.#chunks).toString();
  }

  close(): void {
    this.#end ??= "ended";
    this.response.destroy();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #read(chunk: Buffer): void {
    if (this.isStream) this.#blocks.push(...this.#parser.push(chunk));
    else this.#chunks.push(chunk);
  }

  /** Records the next part of the response. An error of the parser ends the stream for its reader. */
  #settle(act: () => unknown): void {
    try {
      act();
    } catch (error) {
      this.#end ??= error as Error;
    }
    this.#onChange?.();
  }

  /** Waits for a change, unless the response has ended. */
  async #isOver(): Promise<boolean> {
    if (this.#end === undefined) {
      await new Promise<void>((resolve) => (this.#onChange = resolve));
      return false;
    }
    if (this.#end !== "ended") throw this.#end;
    return true;
  }
}
