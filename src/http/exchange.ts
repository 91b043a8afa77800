import { isUtf8 } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Context } from "../context.ts";
import { checkClientBatch, checkClientMessage } from "../mcp/client-message.ts";
import { SidecarError } from "../mcp/errors.ts";
import { LONG_TEXT_LENGTH, type Message, type Reading, readInSteps, readText, type RequestMessage, withoutSteps } from "../mcp/message.ts";
import { addTraceContext, traceContextOf } from "../mcp/rewrite.ts";
import { BODY_COPIES, type MemoryAccount, partMemoryBytes, type Reservation, textMemoryBytes } from "../memory.ts";
import { beginRecord } from "../observe/record.ts";
import type { ServerEra } from "../process/port.ts";
import { outOfMemory, responseOutOfMemory } from "../server/failures.ts";
import { Reply, type ReplyTarget } from "../session/reply.ts";
import type { Principal, Session } from "../session/session.ts";
import { runInSteps } from "../timers.ts";
import { openRequestStream, type SseConnections } from "./event-streams.ts";
import {
  acceptedBy,
  discardBody,
  errorBody,
  errorHeaders,
  errorStatus,
  hasJsonBody,
  holderOf,
  modernStatus,
  reject,
  sendAccepted,
  sendDefect,
  sendJson,
  sendJsonArray,
  sendProblem,
} from "./response.ts";

/** Bytes that are read before the receiver decides about the rest. */
const UNASKED_BYTES = 64 * 1024;
/** A shorter response of a batch is always kept: the error in its place would need the same. In UTF-16 units. */
const SMALL_LENGTH = 4096;
/** A kept response is copied into bytes when it is sent. */
const COPIES = 2;

export interface MessageReceiver {
  /** Called with the data that has arrived, before more than 64 KiB are read. @returns true if it has answered the request. */
  rejectLong(exchange: Exchange, beginning: Buffer): boolean;
  /** Called at most once, possibly in a later turn, and even after the client has disconnected. */
  onMessages(exchange: Exchange, messages: Message | Message[]): void;
}

/**
 * An HTTP request of an MCP client, and its response. A POST has a body with one message, or a batch (revision 2025-03-26).
 *
 * The response is a JSON body. It is a stream if a message precedes it or it takes long, and the client accepts one.
 */
export class Exchange implements ReplyTarget {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly principal: Principal | undefined;
  readonly acceptedAtMs: number;
  readonly holder: Principal | string;
  readonly version: string | undefined;
  readonly sessionId: string | undefined;
  /** True also without an `Accept` header. */
  readonly acceptsJson: boolean;
  acceptsStream: boolean;
  era: ServerEra = "legacy";
  session: Session | undefined;
  headers: Readonly<Record<string, string>> | undefined;
  /** Called if the client disconnects while its request waits for a session. */
  onDisconnect: (() => void) | undefined;
  readonly #context: Context;
  readonly #connections: SseConnections;
  #arriving: Set<Exchange> | undefined;
  #receiver: MessageReceiver | undefined;
  /** 0 if unknown. */
  #declaredBytes = 0;
  /** Undefined if the rest is not read: the listeners would keep the parts in memory until the request is answered. */
  #parts: Buffer[] | undefined = [];
  #length = 0;
  #isForwarded = false;
  #reserved: Reservation | undefined;
  readonly #replies = new Set<Reply>();
  /** The responses of a batch until the last one; undefined for one request. They count as unread output. */
  #kept: string[] | undefined;
  #keptMemory: Reservation | undefined;
  #open: ReturnType<typeof openRequestStream> | undefined;

  constructor(connections: SseConnections, request: IncomingMessage, response: ServerResponse, principal: Principal | undefined) {
    [this.#context, this.#connections] = [connections.context, connections];
    [this.request, this.response, this.principal] = [request, response, principal];
    this.acceptedAtMs = this.#context.nowMs();
    this.holder = holderOf(request, principal);
    const { json, events } = acceptedBy(request);
    [this.acceptsJson, this.acceptsStream] = [json, events];
    this.version = request.headers["mcp-protocol-version"]?.toString();
    this.sessionId = request.headers["mcp-session-id"]?.toString();
    response.on("close", this.#onClose);
  }

  get memory(): MemoryAccount {
    return this.session?.memory ?? this.#context.memory.account(this.holder);
  }

  /** Keeps the session from eviction until the response is read, or its connection has closed. */
  use(session: Session | undefined): void {
    const former = this.session;
    // The client of a long notification may have left. Nothing would end its use.
    if (session === former || (session !== undefined && this.response.destroyed)) return;
    this.session = session;
    if (session !== undefined) session.openRequests++;
    if (former === undefined) return;
    former.openRequests--;
    former.touch(this.#context.nowMs());
  }

  readonly #onClose = (): void => {
    try {
      this.onDisconnect?.();
      if (this.#replies.size > 0) this.#disconnect();
    } catch (error) {
      this.#context.defects.recover("client disconnect", error);
    }
    this.use(undefined);
  };

  read(receiver: MessageReceiver, arriving: Set<Exchange>): void {
    const { request } = this;
    const { config, memory } = this.#context;
    const declaredBytes = Number(request.headers["content-length"] ?? 0);
    [this.#receiver, this.#arriving, this.#declaredBytes] = [receiver, arriving, declaredBytes];
    if (!hasJsonBody(request)) {
      this.#reject(new SidecarError("UNSUPPORTED_MEDIA_TYPE", "The body must be application/json in UTF-8, uncompressed."));
    } else if (declaredBytes > config.maxBodyBytes) this.#reject(tooLarge(config.maxBodyBytes));
    else if (!memory.hasRoomFor(this.holder, declaredBytes * BODY_COPIES)) this.#reject(outOfMemory("The body was not read."));
    else request.on("data", this.#onPart).on("end", this.#onEnd).on("error", this.#onAborted);
  }

  rejectArriving(): void {
    if (this.#parts !== undefined) this.#reject(outOfMemory("The body was read only in part."));
  }

  readonly #onPart = (part: Buffer): void => {
    const parts = this.#parts;
    if (parts === undefined) return;
    const before = this.#length;
    this.#length += part.length;
    const { maxBodyBytes } = this.#context.config;
    if (this.#length > maxBodyBytes) return this.#reject(tooLarge(maxBodyBytes));
    // A body in one part is read in this turn of the event loop.
    if (part.length !== this.#declaredBytes && !this.#reserve(part.length)) return this.rejectArriving();
    parts.push(part);
    if (before > UNASKED_BYTES || this.#length <= UNASKED_BYTES) return;
    try {
      if (this.#receiver?.rejectLong(this, Buffer.concat(parts)) !== true) return;
      this.#release();
    } catch (error) {
      this.#fail(error);
    }
    this.#parts = undefined;
    discardBody(this.request);
  };

  readonly #onEnd = (): void => {
    const parts = this.#parts;
    if (parts === undefined) return;
    const [first, second] = parts;
    const bytes = first !== undefined && second === undefined ? first : Buffer.concat(parts);
    if (!isUtf8(bytes)) return this.#reject(new SidecarError("PARSE_ERROR", "The body is not valid UTF-8."));
    this.#parts = undefined;
    // A body that has arrived keeps its memory until it is forwarded.
    if (this.#reserved !== undefined) this.#arriving?.delete(this);
    try {
      const text = bytes.toString("utf8");
      const trace = traceContextOf(this.request.headers);
      if (text.length > LONG_TEXT_LENGTH) {
        void runInSteps(readLong(text, trace))
          .then((reading) => this.#forward(reading))
          .catch((error: unknown) => this.#fail(error));
      } else if (trace === undefined) this.#forward(readText(text));
      else this.#forward(withoutSteps(addTraceContext(readText(text), trace)));
    } catch (error) {
      this.#fail(error);
    }
  };

  readonly #onAborted = (): void => {
    if (this.#parts !== undefined)
      this.#reject(new SidecarError("BODY_INCOMPLETE", "The connection closed before the whole request body arrived."));
  };

  #reserve(partBytes: number): boolean {
    if (this.#reserved === undefined) {
      this.#reserved = this.#context.memory.account(this.holder).hold("bodies", 0);
      this.#arriving?.add(this);
    }
    return this.#reserved.tryGrow(partMemoryBytes(partBytes));
  }

  #forward(reading: Reading): void {
    try {
      const messages = reading.kind === "batch" ? checkClientBatch(reading) : checkClientMessage(reading);
      if ("code" in messages) return sendProblem(this.response, messages);
      this.#isForwarded = true;
      this.#receiver?.onMessages(this, messages);
    } finally {
      // A request in the lane counts by itself.
      this.#reserved?.release();
    }
  }

  #reject(error: SidecarError): void {
    this.#parts = undefined;
    try {
      this.#release();
      // Other errors are those of HTTP requests, which the status counters show.
      if (error.code === "OUT_OF_MEMORY") this.#context.counters.byKey.refusals.count(error.code);
      reject(this.response, error);
    } catch (defect) {
      this.#fail(defect);
    }
  }

  #fail(error: unknown): void {
    this.#release();
    this.#context.defects.recover("http body", error, () => sendDefect(this.response, this.#isForwarded));
  }

  #release(): void {
    this.#arriving?.delete(this);
    this.#reserved?.release();
  }

  /** Must be called for all requests of a batch before the first one is forwarded. */
  openReply(request: RequestMessage, isPart = false): Reply {
    const reply = new Reply(this.#context, request.idText, this.acceptedAtMs, this);
    reply.record = beginRecord(request, this.holder, this.acceptedAtMs, this.session);
    this.#replies.add(reply);
    if (!isPart) return reply;
    reply.record.httpStatus = 200;
    this.#kept ??= [];
    return reply;
  }

  get isListening(): boolean {
    return this.#open === undefined ? this.acceptsStream && !this.response.destroyed : this.#open.stream.isAttached;
  }

  emit(text: string): boolean {
    this.keepAlive();
    if (this.#open === undefined) return false;
    this.#open.stream.emit(text);
    return true;
  }

  keepAlive(): void {
    if (this.#open !== undefined || !this.acceptsStream || this.response.destroyed) return;
    const [only] = this.#replies;
    const idText = this.#kept === undefined ? only?.idText : undefined;
    this.#open = openRequestStream(this.#connections, this.response, this.memory, this.session, idText);
    for (const { record } of this.#replies) if (record !== undefined) record.httpStatus = 200;
    for (const each of this.#takeKept()) this.#open.stream.emit(each);
  }

  finish(outcome: string | SidecarError | undefined, reply: Reply): string | undefined {
    let body = outcome instanceof SidecarError ? errorBody(outcome, reply.idText, this.era) : outcome;
    if (body !== undefined && this.#kept !== undefined && this.#open === undefined) body = this.#keep(body, reply);
    this.#replies.delete(reply);
    if (this.#open !== undefined && body !== undefined) this.#open.stream.emit(body);
    if (this.#replies.size > 0) return body;
    if (this.#open !== undefined) {
      this.#open.stream.end();
      return body;
    }
    const { response } = this;
    const kept = this.#kept && this.#takeKept();
    if (kept !== undefined && kept.length > 0) sendJsonArray(response, kept);
    else if (body === undefined) sendAccepted(response);
    else if (outcome instanceof SidecarError) sendJson(response, errorStatus(outcome, this.era), body, errorHeaders(outcome));
    else sendJson(response, this.era === "modern" ? modernStatus(body) : 200, body, this.headers);
    if (response.writableLength > 0) this.#connections.unread.count(response, this.memory);
    // A defect may leave a stream half open, and no way to send the response.
    if (!response.writableEnded) response.destroy();
    if (reply.record !== undefined && response.headersSent) reply.record.httpStatus = response.statusCode;
    return body;
  }

  /** @returns the response, or the error in its place if there is no room. */
  #keep(body: string, reply: Reply): string {
    const bytes = textMemoryBytes(body) * COPIES;
    this.#keptMemory ??= this.memory.hold("unread", 0);
    const hasRoom = body.length <= SMALL_LENGTH || this.#keptMemory.tryGrow(bytes);
    if (body.length <= SMALL_LENGTH) this.#keptMemory.resize(this.#keptMemory.bytes + bytes);
    // A stream passes each response on at once.
    if (!hasRoom) this.keepAlive();
    if (this.#open !== undefined) return body;
    const kept = hasRoom ? body : errorBody(responseOutOfMemory(reply.record?.method ?? ""), reply.idText);
    this.#kept?.push(kept);
    return kept;
  }

  #takeKept(): readonly string[] {
    const kept = this.#kept?.splice(0) ?? [];
    this.#keptMemory?.release();
    this.#keptMemory = undefined;
    return kept;
  }

  /** Its requests go on if the client can reconnect for the responses. */
  #disconnect(): void {
    if (this.#open !== undefined) {
      const { stream, connection, isPrimed } = this.#open;
      stream.detach(connection);
      if (this.session !== undefined && (isPrimed || stream.lastSequence > 0)) return;
      stream.end();
    }
    this.#takeKept();
    for (const reply of this.#replies) reply.disconnect();
    this.#replies.clear();
  }
}

function tooLarge(maxBytes: number): SidecarError {
  return new SidecarError("BODY_TOO_LARGE", `The request body is larger than ${maxBytes} bytes.`, { limitBytes: maxBytes });
}

function* readLong(text: string, trace: ReadonlyMap<string, string> | undefined): Generator<undefined, Reading> {
  const reading = yield* readInSteps(text);
  return trace === undefined ? reading : yield* addTraceContext(reading, trace);
}
