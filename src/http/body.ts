import { isUtf8 } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Context } from "../context.ts";
import { checkClientBatch, checkClientMessage } from "../mcp/client-message.ts";
import { SidecarError } from "../mcp/errors.ts";
import { LONG_TEXT_LENGTH, type Message, type Reading, readInSteps, readText, withoutSteps } from "../mcp/message.ts";
import { addTraceContext, traceContextOf } from "../mcp/rewrite.ts";
import { BODY_COPIES, partMemoryBytes, type Reservation } from "../memory.ts";
import { outOfMemory } from "../server/failures.ts";
import { runInSteps } from "../timers.ts";
import type { Principal, Session } from "../session/session.ts";
import { type Accepted, acceptedBy, discardBody, hasJsonBody, holderOf, reject, sendDefect, sendProblem } from "./response.ts";

/** Bytes that are read before the receiver decides about the rest. */
const UNASKED_BYTES = 64 * 1024;

export interface MessageReceiver {
  /** Called before more than 64 KiB are read, with the data that has arrived. @returns true if it has answered the request. */
  rejectLong(post: Post, beginning: Buffer): boolean;
  /** Called at most once for a POST. It may be called in a later turn, after the client has disconnected. */
  onMessages(post: Post, messages: Message | Message[]): void;
}

/** The oldest first. They make room if memory is short. */
export class ArrivingPosts extends Set<Post> {
  constructor({ memory }: Context) {
    super();
    memory.onShortage("share", (bytes, holder) => {
      let freeBytes = 0;
      for (const post of this) {
        if (freeBytes >= bytes) return;
        if (post.holder === holder) freeBytes += post.rejectArriving();
      }
    });
  }
}

/** A request to the endpoint, and the body of a POST. A promise per message would cost more than the reading, so it uses callbacks. */
export class Post {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly principal: Principal | undefined;
  readonly acceptedAtMs: number;
  readonly holder: Principal | string;
  readonly version: string | undefined;
  /** As sent, valid or not. */
  readonly sessionId: string | undefined;
  readonly accepted: Accepted;
  /** Only `use` changes it. */
  session: Session | undefined;
  /** Called when the response is read, or its connection has closed. */
  onClosed: (() => void) | undefined;
  readonly #context: Context;
  #arriving: ArrivingPosts | undefined;
  #receiver: MessageReceiver | undefined;
  /** 0 if it is unknown. */
  #declaredBytes = 0;
  /** Undefined if the rest is not read: its listeners live until the request is answered, and would keep the parts in memory. */
  #parts: Buffer[] | undefined = [];
  #length = 0;
  #isForwarded = false;
  #reserved: Reservation | undefined;

  constructor(context: Context, request: IncomingMessage, response: ServerResponse, principal: Principal | undefined) {
    [this.#context, this.request, this.response, this.principal] = [context, request, response, principal];
    this.acceptedAtMs = context.nowMs();
    this.holder = holderOf(request, principal);
    this.accepted = acceptedBy(request);
    this.version = request.headers["mcp-protocol-version"]?.toString();
    this.sessionId = request.headers["mcp-session-id"]?.toString();
    response.on("close", this.#onClose);
  }

  /** Keeps a session from eviction until the response is read, or its connection has closed. */
  use(session: Session): void {
    // The client of a long notification may have left. Nothing would end its use.
    if (session === this.session || this.response.destroyed) return;
    this.session?.endRequest(this.#context.nowMs());
    this.session = session;
    session.openRequests++;
  }

  readonly #onClose = (): void => {
    this.session?.endRequest(this.#context.nowMs());
    this.onClosed?.();
  };

  read(receiver: MessageReceiver, arriving: ArrivingPosts): void {
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

  /** @returns the bytes that are free. */
  rejectArriving(): number {
    const freeBytes = this.#reserved?.bytes ?? 0;
    if (this.#parts !== undefined) this.#reject(outOfMemory("The body was read only in part."));
    return freeBytes;
  }

  readonly #onPart = (part: Buffer): void => {
    const parts = this.#parts;
    if (parts === undefined) return;
    const before = this.#length;
    this.#length += part.length;
    const { maxBodyBytes } = this.#context.config;
    if (this.#length > maxBodyBytes) return this.#reject(tooLarge(maxBodyBytes));
    // A body in one part is read in this turn of the event loop.
    if (part.length !== this.#declaredBytes && !this.#reserve(part.length)) return void this.rejectArriving();
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

  /** @returns false if there is no memory for another part. */
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
      // Other errors are those of HTTP requests, which the counters of their statuses show.
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
}

function tooLarge(maxBytes: number): SidecarError {
  return new SidecarError("BODY_TOO_LARGE", `The request body is larger than ${maxBytes} bytes.`, { limitBytes: maxBytes });
}

function* readLong(text: string, trace: ReadonlyMap<string, string> | undefined): Generator<undefined, Reading> {
  const reading = yield* readInSteps(text);
  return trace === undefined ? reading : yield* addTraceContext(reading, trace);
}
