// One HTTP request to the sidecar. Its messages are reported as they arrive.

import type { IncomingMessage } from "node:http";
import { EventStreamParser } from "../../test/support/event-stream-parser.ts";
import { type HttpCall, startRequest } from "../../test/support/http-client.ts";

export interface ExchangeListener {
  /** Called for each JSON value of the body or of an event. */
  onMessage?(message: unknown, eventId: string | undefined): void;
  onHead?(head: ExchangeHead): void;
  /** Called when the whole request has been passed to the operating system. */
  onSent?(): void;
}

interface ExchangeHead {
  readonly status: number;
  readonly contentType: string;
  readonly sessionId: string | undefined;
}

/** The end of an exchange. */
export interface ExchangeEnd {
  readonly head?: ExchangeHead;
  /** The code of the connection error, or the message of any other error. */
  readonly failure?: string;
  /** The beginning of a body that is not JSON. */
  readonly excerpt?: string;
}

export interface Exchange {
  readonly ended: Promise<ExchangeEnd>;
  /** Breaks the connection. */
  abandon(): void;
}

const EXCERPT_CHARS = 200;

export function exchange(url: string, call: HttpCall, listener: ExchangeListener): Exchange {
  const { request, response } = startRequest(url, call);
  request.on("finish", () => listener.onSent?.());
  const ended = response.then(
    (incoming) => read(incoming, listener),
    (error: NodeJS.ErrnoException) => ({
      failure: `${error.code ?? error.message} on a connection that was ${request.reusedSocket ? "used before" : "new"}`,
    }),
  );
  return { ended, abandon: () => void request.destroy() };
}

async function read(incoming: IncomingMessage, listener: ExchangeListener): Promise<ExchangeEnd> {
  const head: ExchangeHead = {
    status: incoming.statusCode ?? 0,
    contentType: (incoming.headers["content-type"] ?? "").split(";")[0] ?? "",
    sessionId: incoming.headers["mcp-session-id"]?.toString(),
  };
  listener.onHead?.(head);
  try {
    if (head.contentType === "text/event-stream") await readEvents(incoming, listener);
    else return await readBody(incoming, head, listener);
    return { head };
  } catch (error) {
    return { head, failure: (error as NodeJS.ErrnoException).code ?? String(error) };
  }
}

async function readEvents(incoming: IncomingMessage, listener: ExchangeListener): Promise<void> {
  const parser = new EventStreamParser();
  for await (const chunk of incoming) {
    for (const { id, data = "" } of parser.push(chunk as Buffer)) {
      if (data !== "") listener.onMessage?.(JSON.parse(data), id);
    }
  }
}

async function readBody(incoming: IncomingMessage, head: ExchangeHead, listener: ExchangeListener): Promise<ExchangeEnd> {
  const text = Buffer.concat((await incoming.toArray()) as Buffer[]).toString();
  if (text === "") return { head };
  let messages: unknown;
  try {
    messages = JSON.parse(text);
  } catch {
    return { head, excerpt: text.slice(0, EXCERPT_CHARS) };
  }
  for (const message of Array.isArray(messages) ? (messages as unknown[]) : [messages]) listener.onMessage?.(message, undefined);
  return { head };
}
