import type { ServerResponse } from "node:http";
import type { Context } from "../context.ts";
import { SidecarError } from "../mcp/errors.ts";
import { type RequestMessage } from "../mcp/message.ts";
import { type MemoryAccount, type Reservation, textMemoryBytes } from "../memory.ts";
import { internalError, responseOutOfMemory } from "../server/failures.ts";
import { Reply, type ReplyTarget } from "../session/reply.ts";
import type { Session } from "../session/session.ts";
import type { Post } from "./body.ts";
import { openRequestStream, openStatelessStream, type OpenStream, type SseConnections } from "./event-streams.ts";
import { errorBody, errorHeaders, type Front, sendAccepted, sendJson, sendJsonArray } from "./response.ts";

/**
 * The response of one POST, with its reply. It is a JSON body, unless a message precedes it or it takes long. Then it becomes a stream, if
 * the client accepts one.
 */
export class PostResponse implements ReplyTarget {
  readonly reply: Reply;
  /** Headers for a response in JSON. */
  headers: Readonly<Record<string, string>> | undefined;
  /** The responses of a batch, which are sent as one array; undefined for one response. */
  responses: readonly string[] | undefined;
  readonly #context: Context;
  readonly #connections: SseConnections;
  readonly #front: Front;
  readonly #response: ServerResponse;
  readonly #memory: MemoryAccount;
  readonly #session: Session | undefined;
  readonly #idText: string | undefined;
  readonly #acceptsStream: boolean;
  #open: OpenStream | undefined;

  /**
   * @param idText the JSON text of the request's id; undefined for a batch.
   * @param session undefined without one, and before it is opened.
   */
  constructor(
    connections: SseConnections,
    front: Front,
    post: Post,
    idText: string | undefined,
    acceptsStream: boolean,
    session?: Session,
  ) {
    this.#context = connections.context;
    [this.#connections, this.#front, this.#idText] = [connections, front, idText];
    [this.#acceptsStream, this.#session] = [acceptsStream, session];
    this.#response = post.response;
    this.#memory = session?.memory ?? connections.context.memory.account(post.holder);
    this.reply = new Reply(connections.context, idText ?? "", post.acceptedAtMs, this);
    post.onClosed = this.#onClose;
  }

  get isListening(): boolean {
    return this.#open === undefined ? this.#acceptsStream && !this.#response.destroyed : this.#open.stream.isAttached;
  }

  get isStream(): boolean {
    return this.#open !== undefined;
  }

  emit(text: string): boolean {
    this.keepAlive();
    if (this.#open === undefined) return false;
    this.#open.stream.emit(text);
    return true;
  }

  keepAlive(): void {
    if (this.#open !== undefined || !this.#acceptsStream || this.#response.destroyed) return;
    this.#open =
      this.#session === undefined
        ? openStatelessStream(this.#connections, this.#response, this.#memory)
        : openRequestStream(this.#connections, this.#response, this.#session, this.#idText);
    if (this.reply.record !== undefined) this.reply.record.httpStatus = 200;
  }

  finish(outcome: string | SidecarError | undefined): string | undefined {
    const response = this.#response;
    const { record } = this.reply;
    const error = outcome instanceof SidecarError ? outcome : undefined;
    const body = outcome instanceof SidecarError ? this.#front.errorBody(outcome, this.#idText) : outcome;
    if (this.#open !== undefined) {
      if (body === undefined) this.#open.stream.end();
      else this.#open.stream.finish(body);
      return body;
    }
    if (error !== undefined && body !== undefined) sendJson(response, this.#front.errorStatus(error), body, errorHeaders(error));
    else if (body !== undefined) sendJson(response, this.#front.responseStatus?.(body) ?? 200, body, this.headers);
    else if (this.responses === undefined) sendAccepted(response);
    else sendJsonArray(response, this.responses);
    if (response.writableLength > 0) this.#connections.unread.count(response, this.#memory);
    // A defect may leave a stream half open, without a way to send the response.
    if (!response.writableEnded) response.destroy();
    if (record !== undefined && response.headersSent) record.httpStatus = response.statusCode;
    return body;
  }

  /** The reply ends, unless the client can reconnect for the response and its front lets the request go on meanwhile. */
  readonly #onClose = (): void => {
    if (this.reply.isFinished) return;
    try {
      if (this.#open !== undefined) {
        const { stream, connection, isPrimed } = this.#open;
        stream.detach(connection);
        if (!this.#front.cancelsOnDisconnect(isPrimed || stream.lastSequence > 0)) return;
        stream.end();
      }
      this.reply.disconnect();
    } catch (error) {
      this.#context.defects.recover("client disconnect", error);
    }
  };
}

/** A response up to this length is always kept: the error in its place would need the same. In UTF-16 units. */
const SMALL_LENGTH = 4096;
/** A kept text is copied into bytes when it is sent. */
const COPIES = 2;

/**
 * A batch of revision 2025-03-26: several requests in one POST, each with its own reply. The responses are sent as one array, or as
 * one event each if a stream has begun. Until then they count as unread output of the client.
 */
export class PostBatch implements ReplyTarget {
  readonly #context: Context;
  readonly #whole: PostResponse;
  readonly #memory: MemoryAccount;
  /** The methods of the requests that are not answered, by reply. */
  readonly #methods = new Map<Reply, string>();
  #responses: string[] = [];
  #kept: Reservation | undefined;

  /** @param whole the response of the POST. @param memory the memory of the client. */
  constructor(context: Context, whole: PostResponse, memory: MemoryAccount) {
    [this.#context, this.#whole, this.#memory] = [context, whole, memory];
    whole.reply.onDisconnect = () => {
      this.#takeAll();
      for (const reply of this.#methods.keys()) reply.disconnect();
    };
  }

  /** Must be called for all requests of the batch before the first of them is forwarded. */
  add(request: RequestMessage): Reply {
    const reply = new Reply(this.#context, request.idText, this.#whole.reply.acceptedAtMs, this);
    this.#methods.set(reply, request.method);
    return reply;
  }

  get isListening(): boolean {
    return this.#whole.reply.isListening;
  }

  emit(text: string): boolean {
    const isEmitted = this.#whole.reply.emit(text);
    this.#flush();
    return isEmitted;
  }

  keepAlive(): void {
    this.#whole.reply.keepAlive();
    this.#flush();
  }

  finish(outcome: string | SidecarError | undefined, reply: Reply): string | undefined {
    const body = this.#keep(outcome instanceof SidecarError ? errorBody(outcome, reply.idText) : outcome, reply);
    this.#methods.delete(reply);
    // After a defect, the whole batch fails, since this reply has finished.
    this.#context.defects.guard(
      "client request",
      () => this.#sendWhenComplete(),
      () => this.#whole.reply.fail(internalError(true)),
    );
    return body;
  }

  #sendWhenComplete(): void {
    this.#flush();
    if (this.#methods.size > 0) return;
    const responses = this.#takeAll();
    if (responses.length > 0) this.#whole.responses = responses;
    this.#whole.reply.dismiss();
  }

  /** Keeps a response. @returns it, or the error in its place if there is no room. */
  #keep(body: string | undefined, reply: Reply): string | undefined {
    if (body === undefined) return undefined;
    const hasRoom = this.#whole.isStream || this.#reserve(body);
    // A stream passes each response on at once.
    if (!hasRoom) this.#whole.reply.keepAlive();
    const isLost = !hasRoom && !this.#whole.isStream;
    const kept = isLost ? errorBody(responseOutOfMemory(this.#methods.get(reply) ?? ""), reply.idText) : body;
    this.#responses.push(kept);
    return kept;
  }

  /** Reserves the memory of a response that is kept. @returns false if there is no room. */
  #reserve(body: string): boolean {
    const bytes = textMemoryBytes(body) * COPIES;
    this.#kept ??= this.#memory.hold("unread", 0);
    if (body.length > SMALL_LENGTH) return this.#kept.tryGrow(bytes);
    this.#kept.resize(this.#kept.bytes + bytes);
    return true;
  }

  #flush(): void {
    if (this.#whole.isStream) for (const each of this.#takeAll()) this.#whole.reply.emit(each);
  }

  #takeAll(): string[] {
    const responses = this.#responses;
    this.#responses = [];
    this.#kept?.release();
    this.#kept = undefined;
    return responses;
  }
}
