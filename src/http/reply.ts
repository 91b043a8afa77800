import type { ServerResponse } from "node:http";
import { SidecarError } from "../mcp/errors.ts";
import { type RequestMessage } from "../mcp/message.ts";
import { type MemoryAccount, type Reservation, textMemoryBytes } from "../memory.ts";
import { beginRecord } from "../observe/record.ts";
import type { ServerEra } from "../process/port.ts";
import { responseOutOfMemory } from "../server/failures.ts";
import { Reply, type ReplyTarget } from "../session/reply.ts";
import type { Session } from "../session/session.ts";
import type { Post } from "./body.ts";
import { openRequestStream, type SseConnections } from "./event-streams.ts";
import { errorBody, errorHeaders, errorStatus, modernStatus, sendAccepted, sendJson, sendJsonArray } from "./response.ts";

/** A shorter response of a batch is always kept: the error in its place would need the same. In UTF-16 units. */
const SMALL_LENGTH = 4096;
/** A kept text is copied into bytes when it is sent. */
const COPIES = 2;

/**
 * The response of one POST, with one request or the requests of a batch (revision 2025-03-26). It is a JSON body, unless a message precedes it or
 * it takes long: then it is a stream, if the client accepts one. The responses of a batch count as unread output until the last one.
 */
export class PostResponse implements ReplyTarget {
  headers: Readonly<Record<string, string>> | undefined;
  readonly #connections: SseConnections;
  readonly #post: Post;
  readonly #response: ServerResponse;
  readonly #era: ServerEra;
  readonly #memory: MemoryAccount;
  readonly #session: Session | undefined;
  readonly #acceptsStream: boolean;
  readonly #replies = new Set<Reply>();
  /** Those that wait for the last one of a batch; undefined for one request. */
  #responses: string[] | undefined;
  #kept: Reservation | undefined;
  #open: ReturnType<typeof openRequestStream> | undefined;

  constructor(connections: SseConnections, post: Post, era: ServerEra, acceptsStream: boolean, session?: Session) {
    [this.#connections, this.#post, this.#response, this.#era] = [connections, post, post.response, era];
    [this.#acceptsStream, this.#session] = [acceptsStream, session];
    this.#memory = session?.memory ?? connections.context.memory.account(post.holder);
    post.onClosed = this.#onClose;
  }

  openReply(request: RequestMessage): Reply {
    const reply = new Reply(this.#connections.context, request.idText, this.#post.acceptedAtMs, this);
    reply.record = beginRecord(request, this.#post.holder, this.#post.acceptedAtMs, this.#session);
    this.#replies.add(reply);
    return reply;
  }

  /** For one of several requests. Must be called for all of them before the first one is forwarded. */
  openPart(request: RequestMessage): Reply {
    const reply = this.openReply(request);
    if (reply.record !== undefined) reply.record.httpStatus = 200;
    this.#responses ??= [];
    return reply;
  }

  get isListening(): boolean {
    return this.#open === undefined ? this.#acceptsStream && !this.#response.destroyed : this.#open.stream.isAttached;
  }

  emit(text: string): boolean {
    this.keepAlive();
    if (this.#open === undefined) return false;
    this.#open.stream.emit(text);
    return true;
  }

  keepAlive(): void {
    if (this.#open !== undefined || !this.#acceptsStream || this.#response.destroyed) return;
    const [only] = this.#replies;
    const idText = this.#responses === undefined ? only?.idText : undefined;
    this.#open = openRequestStream(this.#connections, this.#response, this.#memory, this.#session, idText);
    for (const { record } of this.#replies) if (record !== undefined) record.httpStatus = 200;
    for (const each of this.#takeKept()) this.#open.stream.emit(each);
  }

  finish(outcome: string | SidecarError | undefined, reply: Reply): string | undefined {
    let body = outcome instanceof SidecarError ? errorBody(outcome, reply.idText, this.#era) : outcome;
    if (body !== undefined && this.#responses !== undefined && this.#open === undefined) body = this.#keep(body, reply);
    this.#replies.delete(reply);
    if (this.#open !== undefined && body !== undefined) this.#open.stream.emit(body);
    if (this.#replies.size > 0) return body;
    if (this.#open !== undefined) {
      this.#open.stream.end();
      return body;
    }
    const response = this.#response;
    const kept = this.#responses && this.#takeKept();
    if (kept !== undefined && kept.length > 0) sendJsonArray(response, kept);
    else if (body === undefined) sendAccepted(response);
    else if (outcome instanceof SidecarError) sendJson(response, errorStatus(outcome, this.#era), body, errorHeaders(outcome));
    else sendJson(response, this.#era === "modern" ? modernStatus(body) : 200, body, this.headers);
    if (response.writableLength > 0) this.#connections.unread.count(response, this.#memory);
    // A defect may leave a stream half open, without a way to send the response.
    if (!response.writableEnded) response.destroy();
    if (reply.record !== undefined && response.headersSent) reply.record.httpStatus = response.statusCode;
    return body;
  }

  /** @returns the text to emit or to record: the response, or the error in its place if there is no room. */
  #keep(body: string, reply: Reply): string {
    const bytes = textMemoryBytes(body) * COPIES;
    this.#kept ??= this.#memory.hold("unread", 0);
    const hasRoom = body.length <= SMALL_LENGTH || this.#kept.tryGrow(bytes);
    if (body.length <= SMALL_LENGTH) this.#kept.resize(this.#kept.bytes + bytes);
    // A stream passes each response on at once.
    if (!hasRoom) this.keepAlive();
    if (this.#open !== undefined) return body;
    const kept = hasRoom ? body : errorBody(responseOutOfMemory(reply.record?.method ?? ""), reply.idText);
    this.#responses?.push(kept);
    return kept;
  }

  #takeKept(): readonly string[] {
    const kept = this.#responses?.splice(0) ?? [];
    this.#kept?.release();
    this.#kept = undefined;
    return kept;
  }

  /** Not if the client can reconnect for the responses. */
  readonly #onClose = (): void => {
    if (this.#replies.size === 0) return;
    try {
      if (this.#open !== undefined) {
        const { stream, connection, isPrimed } = this.#open;
        stream.detach(connection);
        if (this.#session !== undefined && (isPrimed || stream.lastSequence > 0)) return;
        stream.end();
      }
      this.#takeKept();
      for (const reply of this.#replies) reply.disconnect();
      this.#replies.clear();
    } catch (error) {
      this.#connections.context.defects.recover("client disconnect", error);
    }
  };
}
