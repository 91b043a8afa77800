// One HTTP request to the sidecar, or to the next of its replicas. Its messages are reported as they arrive.

import type { IncomingMessage } from "node:http";
import { EventStreamParser } from "../../test/support/event-stream-parser.ts";
import { type HttpCall, startRequest } from "../../test/support/http-client.ts";
import type { Tally } from "../ledger.ts";

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
  /** True if the connection ended because the driver killed the replica. */
  readonly isKilled?: boolean;
}

export interface Exchange {
  readonly ended: Promise<ExchangeEnd>;
  /** Breaks the connection. */
  abandon(): void;
}

const EXCERPT_CHARS = 200;

function exchange(url: string, call: HttpCall, listener: ExchangeListener): Exchange {
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

/** One process of the sidecar. */
export interface Target {
  readonly url: string;
  readonly tally: Tally;
  /** True once the driver has sent SIGKILL to it. */
  readonly wasKilled: boolean;
}

/** The replicas as a load balancer knows them. It has no affinity. */
export interface Replicas {
  /** Returns the next one in turn that is not one of the tried ones; undefined if there is none. It may have ended. */
  next(tried: ReadonlySet<Target>): Target | undefined;
  all(): readonly Target[];
}

export interface Endpoint {
  readonly url: string;
  readonly token: string | undefined;
  /** If set, each request goes to the next of these instead of to the URL. */
  readonly replicas?: Replicas;
}

interface Choice {
  /** The only replica that may get the request. */
  readonly target?: Target | undefined;
  /** Called before each attempt. */
  readonly onTarget: (target: Target) => void;
}

/** Sends one request. A replica that refuses the connection has got nothing, so the request goes to the one after it. */
export function spreadExchange({ url, replicas }: Endpoint, call: HttpCall, listener: ExchangeListener, choice: Choice): Exchange {
  if (replicas === undefined) return exchange(url, call, listener);
  let current: Exchange | undefined;
  let isAbandoned = false;
  const run = async (): Promise<ExchangeEnd> => {
    const tried = new Set<Target>();
    let end: ExchangeEnd = { failure: "no replica" };
    for (;;) {
      const target = tried.size === 0 ? (choice.target ?? replicas.next(tried)) : replicas.next(tried);
      if (target === undefined) return end;
      tried.add(target);
      choice.onTarget(target);
      current = exchange(target.url, call, listener);
      end = await current.ended;
      if (wasRefused(end) && choice.target === undefined && !isAbandoned) continue;
      return end.failure !== undefined && !wasRefused(end) && target.wasKilled ? { ...end, isKilled: true } : end;
    }
  };
  return {
    ended: run(),
    abandon: () => {
      isAbandoned = true;
      current?.abandon();
    },
  };
}

function wasRefused({ failure }: ExchangeEnd): boolean {
  return failure?.startsWith("ECONNREFUSED") === true;
}
