// What clients of both protocol eras have in common: their calls, and HTTP exchanges whose messages are reported as they arrive.

import { Agent, type ClientRequest, type IncomingMessage } from "node:http";
import { EventStreamParser } from "../../test/support/event-stream-parser.ts";
import { type HttpCall, startRequest } from "../../test/support/http-client.ts";
import type { ToolArguments } from "../contract.ts";
import { LOST_AFTER_MS, type Ledger, type RequestRecord, type Verdict } from "../ledger.ts";

export interface CallOptions {
  readonly text: string;
  readonly delayMs: number;
  readonly hasProgress: boolean;
}

interface ExchangeListener {
  /** Called for each JSON value of the body or of an event. @returns false to break the connection. */
  onMessage(message: unknown, eventId: string | undefined): boolean;
  onHead(head: ExchangeHead): void;
  /** True if the stream may stay open. */
  isLasting(): boolean;
}

interface ExchangeHead {
  readonly status?: number;
  readonly contentType?: string;
  readonly sessionId?: string | undefined;
}

export interface ExchangeEnd extends ExchangeHead {
  /** The code of the connection error, or the message of any other error. */
  readonly failure?: string;
  /** The beginning of a body that is not JSON. */
  readonly excerpt?: string;
}

interface Running {
  readonly request: ClientRequest;
  readonly record: RequestRecord | undefined;
  readonly ended: Promise<ExchangeEnd>;
}

type Requested = Pick<RequestRecord, "what"> & Partial<Pick<RequestRecord, "text" | "nonce">>;

const EXCERPT_CHARS = 200;

/** The requests of a client: in one session, or without any. */
export abstract class Caller {
  abstract readonly isStateless: boolean;
  /** True once the session has ended in the sidecar. */
  isOver = false;
  protected readonly name: string;
  protected readonly ledger: Ledger;
  readonly #url: string;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #running = new Set<Running>();
  /** Ids are the same for all clients and in every session, which detects a sidecar that confuses them. */
  #lastId = 0;

  constructor(url: string, name: string, ledger: Ledger) {
    this.#url = url;
    this.name = name;
    this.ledger = ledger;
  }

  /** @returns false if it cannot be used. */
  abstract open(): Promise<boolean>;
  /** Sends one of two requests that are no calls. */
  abstract ask(isFirst: boolean): Promise<Verdict>;
  /** Calls the tool that asks. @param leaves true to leave the question unanswered. */
  abstract callAsking(text: string, leaves: boolean): Promise<Verdict>;
  /** Keeps a stream or a subscription open. Resolves when it has ended. */
  abstract listen(): Promise<unknown>;
  /** Ends the session, even if requests are in flight. */
  abstract delete(): Promise<void>;
  /** Sends a request. With `onLostStream`, the stream is broken after its first event, and resumed. */
  protected abstract request(method: string, params: object, requested: Requested, onLostStream?: () => void): Promise<Verdict>;

  call(tool: string, { text, delayMs, hasProgress }: CallOptions, onLostStream?: () => void): Promise<Verdict> {
    const args = this.argumentsOf(text, delayMs);
    const meta = hasProgress ? { _meta: { progressToken: `${this.name}/${args.nonce}` } } : {};
    return this.request("tools/call", { name: tool, arguments: args, ...meta }, { what: tool, ...args }, onLostStream);
  }

  /** Ends the subscriptions, which are requests. */
  endListens(): void {
    this.#abandon(({ record }) => record?.what === "subscriptions/listen");
  }

  /** Breaks all connections. Without a session, this cancels all requests. */
  disconnect(): void {
    this.#abandon(() => true);
  }

  /** Closes an ended session after its last pending response. */
  async closeWhenIdle(): Promise<void> {
    await Promise.all([...this.#running].filter(({ record }) => record !== undefined).map(({ ended }) => ended));
    this.close();
  }

  close(): void {
    this.disconnect();
    this.#agent.destroy();
  }

  protected argumentsOf(text: string, delayMs = 0): ToolArguments {
    return { client: this.name, nonce: `${this.#lastId}-${performance.now()}`, text, delayMs };
  }

  protected recordOf({ what, text = "", nonce = "" }: Requested): RequestRecord {
    const { isStateless, name: client } = this;
    return { client, what, id: ++this.#lastId, nonce, text, isStateless, sentAtMs: Number.POSITIVE_INFINITY };
  }

  /** Makes an HTTP exchange. @param record the request that is posted, or whose stream is resumed. It is lost if this takes too long. */
  protected exchange(call: HttpCall, record: RequestRecord | undefined, listener: ExchangeListener): Promise<ExchangeEnd> {
    const { request, response } = startRequest(this.#url, { agent: this.#agent, ...call });
    request.on("finish", () => {
      if (record !== undefined && call.method !== "GET") record.sentAtMs = performance.now();
    });
    const overdue = setTimeout(() => {
      if (listener.isLasting()) return;
      if (record !== undefined) this.ledger.settle(record, "lost", `no answer in ${LOST_AFTER_MS / 1000} s`);
      request.destroy();
    }, LOST_AFTER_MS);
    const ended = response.then(
      (incoming) => read(incoming, listener),
      (error: NodeJS.ErrnoException) => ({
        failure: `${error.code ?? error.message} on a connection that was ${request.reusedSocket ? "used before" : "new"}`,
      }),
    );
    const running: Running = { request, record, ended };
    this.#running.add(running);
    void ended.then(() => {
      clearTimeout(overdue);
      this.#running.delete(running);
    });
    return ended;
  }

  #abandon(isChosen: (running: Running) => boolean): void {
    for (const { request, record } of [...this.#running].filter(isChosen)) {
      if (record !== undefined) this.ledger.settle(record, "abandoned");
      request.destroy();
    }
  }
}

async function read(incoming: IncomingMessage, listener: ExchangeListener): Promise<ExchangeEnd> {
  const head: ExchangeHead = {
    status: incoming.statusCode ?? 0,
    contentType: (incoming.headers["content-type"] ?? "").split(";")[0] ?? "",
    sessionId: incoming.headers["mcp-session-id"]?.toString(),
  };
  listener.onHead(head);
  try {
    if (head.contentType === "text/event-stream") await readEvents(incoming, listener);
    else return { ...head, ...(await readBody(incoming, listener)) };
    return head;
  } catch (error) {
    return { ...head, failure: (error as NodeJS.ErrnoException).code ?? String(error) };
  }
}

async function readEvents(incoming: IncomingMessage, listener: ExchangeListener): Promise<void> {
  const parser = new EventStreamParser();
  for await (const chunk of incoming) {
    for (const { id, data = "" } of parser.push(chunk as Buffer)) {
      // Later events of the same chunk count as not received.
      if (data !== "" && !listener.onMessage(JSON.parse(data), id)) return;
    }
  }
}

async function readBody(incoming: IncomingMessage, listener: ExchangeListener): Promise<Pick<ExchangeEnd, "excerpt">> {
  const text = Buffer.concat((await incoming.toArray()) as Buffer[]).toString();
  if (text === "") return {};
  let messages: unknown;
  try {
    messages = JSON.parse(text);
  } catch {
    return { excerpt: text.slice(0, EXCERPT_CHARS) };
  }
  for (const message of Array.isArray(messages) ? (messages as unknown[]) : [messages]) listener.onMessage(message, undefined);
  return {};
}
