// One HTTP request whose messages are handed on as they come.

import { type Agent, type ClientRequest, type IncomingMessage, request } from "node:http";
import { EventReader } from "./event-reader.ts";

export interface ExchangeOptions {
  readonly agent: Agent;
  readonly url: URL;
  readonly method: "POST" | "GET" | "DELETE";
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface ExchangeListener {
  /** A JSON value of the body, or of an event. */
  onMessage?(message: unknown, eventId: string | undefined): void;
  onHead?(head: ExchangeHead): void;
  /** All of the request has been handed to the operating system. */
  onSent?(): void;
}

interface ExchangeHead {
  readonly status: number;
  readonly contentType: string;
  readonly sessionId: string | undefined;
}

/** How it ended. */
export interface ExchangeEnd {
  readonly head?: ExchangeHead;
  /** The code of the connection's error, or what was not as it should be. */
  readonly failure?: string;
  /** The beginning of a body that is no JSON. */
  readonly excerpt?: string;
}

export interface Exchange {
  readonly ended: Promise<ExchangeEnd>;
  /** Breaks the connection. */
  abandon(): void;
}

const EXCERPT_CHARS = 200;

export function exchange(options: ExchangeOptions, listener: ExchangeListener): Exchange {
  const { agent, url, method, headers, body } = options;
  const length = body === undefined ? {} : { "Content-Length": String(Buffer.byteLength(body)) };
  const outgoing = request(url, { agent, method, headers: { ...headers, ...length } });
  const ended = new Promise<ExchangeEnd>((resolve) => {
    outgoing.on("error", (error: NodeJS.ErrnoException) => {
      resolve({ failure: `${error.code ?? error.message} on a connection that was ${outgoing.reusedSocket ? "used before" : "new"}` });
    });
    outgoing.on("response", (incoming) => {
      void read(incoming, listener).then(resolve);
    });
  });
  outgoing.on("finish", () => listener.onSent?.());
  outgoing.end(body);
  return { ended, abandon: () => abandon(outgoing) };
}

function abandon(outgoing: ClientRequest): void {
  outgoing.destroy();
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
  const reader = new EventReader();
  for await (const chunk of incoming) {
    for (const { id, data } of reader.push(chunk as Buffer)) {
      if (data !== "") listener.onMessage?.(JSON.parse(data), id);
    }
  }
}

async function readBody(incoming: IncomingMessage, head: ExchangeHead, listener: ExchangeListener): Promise<ExchangeEnd> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
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
