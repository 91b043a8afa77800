import { parseEventStream } from "./event-stream-parser.ts";
import type { HttpReply } from "./http-client.ts";

/** A JSON-RPC message, with the members that tests read. */
export interface JsonRpcMessage {
  readonly jsonrpc: string;
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: { readonly [key: string]: unknown; readonly content?: readonly { readonly text: string }[] };
  readonly error?: { readonly code: number; readonly message: string; readonly data?: Readonly<Record<string, unknown>> };
}

/** Returns the texts of the messages of a response: all events of a stream, in order, or the one body. */
export function messageTexts({ headers, body }: HttpReply): string[] {
  if (headers["content-type"] !== "text/event-stream") return [body];
  return parseEventStream(body).flatMap(({ data = "" }) => (data === "" ? [] : [data]));
}

/** Returns the messages of a response, in order. */
export function readMessages(reply: HttpReply): JsonRpcMessage[] {
  return messageTexts(reply).map((text) => JSON.parse(text) as JsonRpcMessage);
}

/** Returns the JSON-RPC response from the body or from the last event: a response that takes STREAM_AFTER_MS arrives in a stream. */
export function readResponse(reply: HttpReply): JsonRpcMessage {
  return JSON.parse(messageTexts(reply).at(-1) ?? "") as JsonRpcMessage;
}

export function resultText(message: JsonRpcMessage): string {
  const text = message.result?.content?.[0]?.text;
  if (text === undefined) throw new Error(`not a result with a text: ${JSON.stringify(message)}`);
  return text;
}

/** Returns the token under which the reader of this request may show progress. */
export function progressTokenOf({ params }: JsonRpcMessage): unknown {
  return (params?.["_meta"] as { readonly progressToken?: unknown } | undefined)?.progressToken;
}
