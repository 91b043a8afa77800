import type { ServerResponse } from "node:http";
import type { Context } from "../context.ts";
import type { SidecarError } from "../mcp/errors.ts";
import { idTextOf, type RequestMessage, type ResponseMessage } from "../mcp/message.ts";
import { type MemoryAccount, type Reservation, textMemoryBytes } from "../memory.ts";
import type { ObservedRequest } from "../observe/record.ts";
import { internalError, responseOutOfMemory } from "../server/failures.ts";
import type { Reply, Session } from "../session/session.ts";
import { openRequestStream, openStatelessStream, type OpenStream, type SseConnections } from "./event-streams.ts";
import { errorBody, errorHeaders, type Front, type Post, sendAccepted, sendJson, sendJsonArray } from "./response.ts";

/**
 * The reply of one POST. Its response is a JSON body, unless a message precedes it or it takes long. Then it becomes a stream, if the
 * client accepts one.
 */
export class PostReply implements Reply {
  /** Empty for a batch, whose requests have replies of their own. */
  readonly idText: string;
  readonly acceptedAtMs: number;
  readonly observed: ObservedRequest | undefined;
  /** Headers for a response in JSON. */
  headers: Readonly<Record<string, string>> | undefined;
  readonly #context: Context;
  readonly #connections: SseConnections;
  readonly #front: Front;
  readonly #response: ServerResponse;
  readonly #memory: MemoryAccount;
  readonly #session: Session | undefined;
  readonly #acceptsStream: boolean;
  readonly #errorIdText: string | undefined;
  #open: OpenStream | undefined;
  #onDisconnect: (() => void) | undefined;
  #isFinished = false;

  /**
   * @param idText the JSON text of the request's id; undefined for a batch.
   * @param observed undefined if nothing observes the request, and for a batch.
   * @param session undefined without one, and before it is opened.
   */
  constructor(
    context: Context,
    connections: SseConnections,
    front: Front,
    post: Post,
    idText: string | undefined,
    observed: ObservedRequest | undefined,
    acceptsStream: boolean,
    session?: Session,
  ) {
    [this.#context, this.#connections, this.#front] = [context, connections, front];
    this.#response = post.response;
    this.#memory = session?.memory ?? post.memory;
    this.#session = session;
    this.#acceptsStream = acceptsStream;
    this.idText = idText ?? "";
    this.#errorIdText = idText;
    this.acceptedAtMs = post.acceptedAtMs;
    this.observed = observed;
    this.#response.on("close", this.#onClose);
  }

  get isListening(): boolean {
    if (this.#isFinished) return false;
    return this.#open === undefined ? this.#acceptsStream && !this.#response.destroyed : this.#open.stream.isAttached;
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
    if (!this.#acceptsStream || this.#isFinished || this.#response.destroyed) return;
    this.#open ??=
      this.#session === undefined
        ? openStatelessStream(this.#connections, this.#response, this.#memory)
        : openRequestStream(this.#connections, this.#response, this.#session, this.#errorIdText);
  }

  respond(body: string, response?: ResponseMessage): void {
    this.#finish(body);
    this.observed?.onResponse(this.#httpStatus, body, response);
  }

  /** Finishes a batch with these responses as one array. The POST must not be a stream. */
  respondAll(bodies: readonly string[]): void {
    this.#finish(bodies);
  }

  fail(error: SidecarError): void {
    const body = this.#front.errorBody(error, this.#errorIdText);
    this.#finish(body, this.#front.errorStatus(error), errorHeaders(error));
    this.observed?.onFailed(this.#httpStatus, error, body);
  }

  /** Ends the HTTP reply of a request that its client has cancelled, to which MCP has no response. */
  dismiss(): void {
    this.#finish(undefined);
    this.observed?.onUnanswered(this.#httpStatus, "dismissed");
  }

  onDisconnect(listener: () => void): void {
    this.#onDisconnect = listener;
  }

  get #httpStatus(): number | undefined {
    return this.#response.headersSent ? this.#response.statusCode : undefined;
  }

  /** Finishes the reply once. If a defect prevents the response, the reply can still be finished with an error. */
  #finish(body: string | readonly string[] | undefined, httpStatus?: number, headers = this.headers): void {
    if (this.#isFinished) return;
    this.#isFinished = true;
    const response = this.#response;
    try {
      if (this.#open !== undefined) {
        if (typeof body === "string") this.#open.stream.finish(body);
        else this.#open.stream.end();
        return;
      }
      if (body === undefined) sendAccepted(response);
      else if (typeof body === "string") sendJson(response, httpStatus ?? this.#front.responseStatus(body), body, headers);
      else sendJsonArray(response, body);
      this.#connections.unread.count(response, this.#memory);
      // A defect may leave a stream half open, without a way to send the response.
      if (!response.writableEnded) response.destroy();
    } catch (error) {
      this.#isFinished = false;
      throw error;
    }
  }

  /** The reply ends, unless the client can reconnect for the response and its front lets the request go on meanwhile. */
  readonly #onClose = (): void => {
    if (this.#isFinished) return;
    try {
      if (this.#open !== undefined) {
        const { stream, connection, isPrimed } = this.#open;
        stream.detach(connection);
        if (!this.#front.cancelsOnDisconnect(isPrimed || stream.lastSequence > 0)) return;
        stream.end();
      }
      this.#isFinished = true;
      this.#onDisconnect?.();
      this.observed?.onUnanswered(this.#httpStatus, "unread");
    } catch (error) {
      this.#context.defects.recover("client disconnect", error);
    }
  };
}

/** An HTTP response that several requests share: that of a batch, or the only stream of an HTTP+SSE client. */
export interface SharedResponse extends Pick<Reply, "isListening" | "emit" | "keepAlive"> {
  /** The HTTP status of the POST. */
  readonly httpStatus: number;
  /** Sends the JSON text of one response, now or with others. */
  respond(body: string, reply: SharedReply): void;
  /** Called when a reply has finished, after its response, if it has one. */
  onFinished(reply: SharedReply): void;
}

/** One of the requests that share an HTTP response. Its client has a session. */
export class SharedReply implements Reply {
  readonly idText: string;
  readonly acceptedAtMs: number;
  readonly observed: ObservedRequest | undefined;
  readonly #shared: SharedResponse;
  #onDisconnect: (() => void) | undefined;
  #isFinished = false;

  constructor(idText: string, acceptedAtMs: number, shared: SharedResponse, observed: ObservedRequest | undefined) {
    this.idText = idText;
    this.acceptedAtMs = acceptedAtMs;
    this.#shared = shared;
    this.observed = observed;
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
    const body = errorBody(error, this.idText);
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
      // A defect prevented the response, so the reply can still be finished with an error.
      this.#isFinished = false;
      throw error;
    }
    this.#shared.onFinished(this);
  }
}

/** A response up to this length is always kept: the error in its place would need the same. In UTF-16 units. */
const SMALL_LENGTH = 4096;
/** A kept text is copied into bytes when it is sent. */
const COPIES = 2;

/**
 * A batch of revision 2025-03-26: several requests in one POST, each with its own reply. The responses are sent as one array, or as
 * one event each if a stream has begun. Until then they count as unread output of the client.
 */
export class PostBatch implements SharedResponse {
  readonly httpStatus = 200;
  readonly #whole: PostReply;
  readonly #memory: MemoryAccount;
  /** The replies with the methods of their requests. */
  readonly #methods = new Map<SharedReply, string>();
  #responses: string[] = [];
  #kept: Reservation | undefined;
  #open = 0;

  /** @param whole the reply of the POST. @param memory the memory of the client. */
  constructor(whole: PostReply, memory: MemoryAccount) {
    [this.#whole, this.#memory] = [whole, memory];
    whole.onDisconnect(() => {
      this.#takeAll();
      for (const reply of this.#methods.keys()) reply.disconnect();
    });
  }

  /** Must be called for all requests of the batch before the first of them is forwarded. */
  add(request: RequestMessage, observed?: ObservedRequest): Reply {
    const reply = new SharedReply(idTextOf(request), this.#whole.acceptedAtMs, this, observed);
    this.#methods.set(reply, request.method);
    this.#open++;
    return reply;
  }

  get isListening(): boolean {
    return this.#whole.isListening;
  }

  emit(body: string): boolean {
    const isEmitted = this.#whole.emit(body);
    this.#flush();
    return isEmitted;
  }

  keepAlive(): void {
    this.#whole.keepAlive();
    this.#flush();
  }

  respond(body: string, reply: SharedReply): void {
    const hasRoom = this.#whole.isStream || this.#reserve(body);
    // A stream passes each response on at once.
    if (!hasRoom) this.#whole.keepAlive();
    const isLost = !hasRoom && !this.#whole.isStream;
    this.#responses.push(isLost ? errorBody(responseOutOfMemory(this.#methods.get(reply) ?? ""), reply.idText) : body);
  }

  onFinished(): void {
    this.#open--;
    try {
      this.#flush();
      if (this.#open > 0) return;
      const responses = this.#takeAll();
      if (responses.length > 0) this.#whole.respondAll(responses);
      else this.#whole.dismiss();
    } catch (error) {
      // After a defect, the whole batch fails, since this reply has already finished.
      this.#whole.fail(internalError(true));
      throw error;
    }
  }

  /** Reserves the memory of a response that is kept. @returns false if there is no room. */
  #reserve(body: string): boolean {
    const bytes = textMemoryBytes(body) * COPIES;
    this.#kept ??= this.#memory.hold("unread", 0);
    if (body.length > SMALL_LENGTH) return this.#kept.tryGrow(bytes);
    this.#kept.resize(this.#kept.bytes + bytes);
    return true;
  }

  /** Sends the kept responses if a stream has begun. */
  #flush(): void {
    if (this.#whole.isStream) for (const each of this.#takeAll()) this.#whole.emit(each);
  }

  #takeAll(): string[] {
    const responses = this.#responses;
    this.#responses = [];
    this.#kept?.release();
    this.#kept = undefined;
    return responses;
  }
}
