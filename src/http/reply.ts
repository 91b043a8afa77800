import type { ServerResponse } from "node:http";
import type { SidecarError } from "../mcp/errors.ts";
import type { ResponseMessage } from "../mcp/message.ts";
import type { MemoryAccount } from "../memory.ts";
import type { Defects } from "../observe/log.ts";
import type { ObservedRequest } from "../observe/record.ts";
import type { Exchange } from "../session/session.ts";
import type { OpenStream } from "./event-streams.ts";
import { errorHeaders, type Front, sendAccepted, sendJson, sendJsonArray } from "./response.ts";
import type { UnreadOutput } from "./unread-output.ts";

interface PostExchangeOptions {
  readonly front: Front;
  readonly response: ServerResponse;
  readonly memory: MemoryAccount;
  readonly unread: Pick<UnreadOutput, "count">;
  readonly defects: Pick<Defects, "recover">;
  /** The JSON text of the request's id; undefined for a batch. */
  readonly idText: string | undefined;
  readonly acceptedAtMs: number;
  /** Starts a stream as the HTTP response; undefined if the client does not accept one. */
  readonly openStream?: (() => OpenStream) | undefined;
  /** Undefined if nothing observes the request, and for a batch. */
  readonly observed?: ObservedRequest | undefined;
}

/**
 * The exchange of one POST. Its response is a JSON body, unless a message precedes it or it takes long. Then it becomes a stream, if the
 * client accepts one.
 */
export class PostExchange implements Exchange {
  /** Empty for a batch, whose requests have exchanges of their own. */
  readonly idText: string;
  readonly acceptedAtMs: number;
  readonly sharedBy = 1;
  readonly observed: ObservedRequest | undefined;
  readonly #errorIdText: string | undefined;
  readonly #front: Front;
  readonly #response: ServerResponse;
  readonly #memory: MemoryAccount;
  readonly #unread: Pick<UnreadOutput, "count">;
  readonly #defects: Pick<Defects, "recover">;
  readonly #openStream: (() => OpenStream) | undefined;
  #open: OpenStream | undefined;
  #headers: Readonly<Record<string, string>> | undefined;
  #onDisconnect: (() => void) | undefined;
  #isFinished = false;

  constructor({ front, response, memory, unread, defects, idText, acceptedAtMs, openStream, observed }: PostExchangeOptions) {
    this.#front = front;
    this.#response = response;
    this.#memory = memory;
    this.#unread = unread;
    this.#defects = defects;
    this.idText = idText ?? "";
    this.#errorIdText = idText;
    this.acceptedAtMs = acceptedAtMs;
    this.#openStream = openStream;
    this.observed = observed;
    response.on("close", this.#onClose);
  }

  /** Sets headers for a response in JSON. */
  setHeaders(headers: Readonly<Record<string, string>>): void {
    this.#headers = headers;
  }

  get isListening(): boolean {
    if (this.#isFinished) return false;
    return this.#open === undefined ? this.#openStream !== undefined && !this.#response.destroyed : this.#open.stream.isAttached;
  }

  get isStream(): boolean {
    return this.#open !== undefined;
  }

  emit(body: string): boolean {
    this.keepAlive();
    if (this.#isFinished || this.#open === undefined) return false;
    this.#open.stream.emit(body);
    return true;
  }

  keepAlive(): void {
    if (!this.#isFinished && !this.#response.destroyed) this.#open ??= this.#openStream?.();
  }

  respond(body: string, response?: ResponseMessage): void {
    this.#finish(() => {
      if (this.#open !== undefined) return this.#open.stream.finish(body);
      sendJson(this.#response, this.#front.responseStatus(body), body, this.#headers);
      this.#unread.count(this.#response, this.#memory);
    });
    this.observed?.onResponse(this.#httpStatus, body, response);
  }

  /** Finishes a batch with these responses as one array. The POST must not be a stream. */
  respondAll(bodies: readonly string[]): void {
    this.#finish(() => {
      sendJsonArray(this.#response, bodies);
      this.#unread.count(this.#response, this.#memory);
    });
  }

  fail(error: SidecarError): void {
    const body = this.#front.errorBody(error, this.#errorIdText);
    this.#finish(() => {
      if (this.#open === undefined) sendJson(this.#response, this.#front.errorStatus(error), body, errorHeaders(error));
      else this.#open.stream.finish(body);
    });
    this.observed?.onFailed(this.#httpStatus, error, body);
  }

  /** Ends the HTTP exchange of a request that its client has cancelled, to which MCP has no response. */
  dismiss(): void {
    this.#finish(() => {
      if (this.#open === undefined) sendAccepted(this.#response);
      else this.#open.stream.end();
    });
    this.observed?.onUnanswered(this.#httpStatus, "dismissed");
  }

  onDisconnect(listener: () => void): void {
    this.#onDisconnect = listener;
  }

  get #httpStatus(): number | undefined {
    return this.#response.headersSent ? this.#response.statusCode : undefined;
  }

  /** Finishes the exchange once. If a defect prevents the response, the exchange can still be finished with an error. */
  #finish(send: () => void): void {
    if (this.#isFinished) return;
    this.#isFinished = true;
    try {
      send();
      // A defect may leave a stream half open, without a way to send the response.
      if (this.#open === undefined && !this.#response.writableEnded) this.#response.destroy();
    } catch (error) {
      this.#isFinished = false;
      throw error;
    }
  }

  /** The exchange ends, unless the client can reconnect for the response and its front lets the request go on meanwhile. */
  readonly #onClose = (): void => {
    try {
      if (this.#open !== undefined) {
        const { stream, connection, isPrimed } = this.#open;
        stream.detach(connection);
        if (!this.#front.cancelsOnDisconnect(isPrimed || stream.hasBegun)) return;
        stream.end();
      }
      this.#finish(() => this.#onDisconnect?.());
      this.observed?.onUnanswered(this.#httpStatus, "unread");
    } catch (error) {
      this.#defects.recover("client disconnect", error);
    }
  };
}

/** An HTTP response that several requests share: that of a batch, or the only stream of an HTTP+SSE client. */
export interface SharedResponse extends Pick<Exchange, "sharedBy" | "isListening" | "emit" | "keepAlive"> {
  /** The HTTP status of the POST. */
  readonly httpStatus: number;
  /** Sends the JSON text of one response, now or with others. */
  respond(body: string, exchange: SharedExchange): void;
  /** Called when an exchange has finished, after its response, if it has one. */
  onFinished(exchange: SharedExchange): void;
}

/** One of the requests that share an HTTP response. */
export class SharedExchange implements Exchange {
  readonly idText: string;
  readonly acceptedAtMs: number;
  readonly observed: ObservedRequest | undefined;
  readonly #front: Front;
  readonly #shared: SharedResponse;
  #onDisconnect: (() => void) | undefined;
  #isFinished = false;

  constructor(front: Front, idText: string, acceptedAtMs: number, shared: SharedResponse, observed: ObservedRequest | undefined) {
    this.#front = front;
    this.idText = idText;
    this.acceptedAtMs = acceptedAtMs;
    this.#shared = shared;
    this.observed = observed;
  }

  get sharedBy(): number {
    return this.#shared.sharedBy;
  }

  get isListening(): boolean {
    return !this.#isFinished && this.#shared.isListening;
  }

  emit(body: string): boolean {
    return !this.#isFinished && this.#shared.emit(body);
  }

  keepAlive(): void {
    this.#shared.keepAlive();
  }

  respond(body: string, response?: ResponseMessage): void {
    this.#finish(body);
    this.observed?.onResponse(this.#shared.httpStatus, body, response);
  }

  fail(error: SidecarError): void {
    const body = this.#front.errorBody(error, this.idText);
    this.#finish(body);
    this.observed?.onFailed(this.#shared.httpStatus, error, body);
  }

  dismiss(): void {
    this.#finish(undefined);
    this.observed?.onUnanswered(this.#shared.httpStatus, "dismissed");
  }

  onDisconnect(listener: () => void): void {
    this.#onDisconnect = listener;
  }

  /** Must be called when the client has disconnected. */
  disconnect(): void {
    if (this.#isFinished) return;
    this.#isFinished = true;
    this.#onDisconnect?.();
    this.observed?.onUnanswered(this.#shared.httpStatus, "unread");
  }

  #finish(body: string | undefined): void {
    if (this.#isFinished) return;
    this.#isFinished = true;
    try {
      if (body !== undefined) this.#shared.respond(body, this);
    } catch (error) {
      // A defect prevented the response, so the exchange can still be finished with an error.
      this.#isFinished = false;
      throw error;
    }
    this.#shared.onFinished(this);
  }
}
