import { once } from "node:events";
import type { EventStream } from "./event-stream.ts";
import type { JsonRpcMessage } from "./json-rpc.ts";

export class ModernListen implements AsyncDisposable {
  /** The response, for its headers and comments. */
  readonly stream: EventStream;
  readonly acknowledgement: JsonRpcMessage;

  private constructor(stream: EventStream, acknowledgement: JsonRpcMessage) {
    this.stream = stream;
    this.acknowledgement = acknowledgement;
  }

  /** @throws if the response does not begin with an acknowledgement. */
  static async open(stream: EventStream): Promise<ModernListen> {
    if (!stream.isStream) throw new Error(`subscriptions/listen: ${stream.status} ${await stream.body()}`);
    const first = await stream.next();
    if (first.method === "notifications/subscriptions/acknowledged") return new ModernListen(stream, first);
    stream.close();
    throw new Error(`not an acknowledgement: ${JSON.stringify(first)}`);
  }

  /** The accepted part of the filter. */
  get accepted(): unknown {
    return this.acknowledgement.params?.["notifications"];
  }

  /** Returns the next message: a notification, or the result that ends the subscription. @throws at the end of the stream. */
  next(): Promise<JsonRpcMessage> {
    return this.stream.next();
  }

  /** Returns all unread messages, up to the end of the stream. */
  rest(): Promise<JsonRpcMessage[]> {
    return this.stream.rest();
  }

  async close(): Promise<void> {
    this.stream.close();
    if (!this.stream.response.closed) await once(this.stream.response, "close");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
