import { isUtf8 } from "node:buffer";
import type { Context } from "../context.ts";
import { checkClientBatch, checkClientMessage } from "../mcp/client-message.ts";
import { SidecarError } from "../mcp/errors.ts";
import { LONG_TEXT_LENGTH, type Message, type Reading, readInSteps, readText, withoutSteps } from "../mcp/message.ts";
import { addTraceContext, traceContextOf } from "../mcp/rewrite.ts";
import { BODY_COPIES, type MemoryHolder, partMemoryBytes, type Reservation } from "../memory.ts";
import { outOfMemory } from "../server/failures.ts";
import { runInSteps } from "../timers.ts";
import { discardBody, hasJsonBody, type Post, reject, sendDefect, sendProblem } from "./response.ts";

/** Bytes that are read before the receiver decides about the rest. */
const UNASKED_BYTES = 64 * 1024;

/** Receives the messages of POST requests. One receiver serves all requests of a route. */
export interface MessageReceiver {
  /** Called before more than 64 KiB are read, with the data that has arrived. @returns true if it has answered the request. */
  rejectLong(post: Post, beginning: Buffer): boolean;
  /** Called at most once for a POST. It may be called in a later turn, after the client has disconnected. */
  onMessages(post: Post, messages: Message | Message[]): void;
}

/** The bodies of POST requests, with those that arrive in parts. */
export class PostedBodies {
  readonly #context: Context;
  /** Those of which a part has arrived, the oldest first. Only the bodies change it. */
  readonly arriving = new Set<PostedBody>();

  constructor(context: Context) {
    this.#context = context;
    context.memory.onShortage("share", (bytes, holder) => this.#reject(bytes, holder));
  }

  /** Reads the body of a POST, and rejects it if it is neither a message nor a batch. Its media type must be JSON. */
  read(post: Post, receiver: MessageReceiver): void {
    const { request } = post;
    const { config, memory } = this.#context;
    const declaredBytes = Number(request.headers["content-length"] ?? 0);
    if (!hasJsonBody(request)) {
      this.reject(post, new SidecarError("UNSUPPORTED_MEDIA_TYPE", "The body must be application/json in UTF-8, uncompressed."));
    } else if (declaredBytes > config.maxBodyBytes) this.reject(post, tooLarge(config.maxBodyBytes));
    else if (!memory.hasRoomFor(post.holder, declaredBytes * BODY_COPIES)) this.reject(post, outOfMemory("The body was not read."));
    else {
      const body = new PostedBody(this.#context, this, post, receiver, declaredBytes);
      request.on("data", body.onPart).on("end", body.onEnd).on("error", body.onClose).on("close", body.onClose);
    }
  }

  reject({ request, response }: Post, error: SidecarError): void {
    // Other errors are those of HTTP requests, which the counters of their statuses show.
    if (error.code === "OUT_OF_MEMORY") this.#context.counters.byKey.refusals.count(error.code);
    reject(request, response, error);
  }

  /** Rejects bodies of a client until this much memory is free. Those that have taken longest are first. */
  #reject(bytes: number, holder: MemoryHolder): void {
    let freeBytes = 0;
    for (const body of this.arriving) {
      if (freeBytes >= bytes) return;
      if (body.holder !== holder) continue;
      freeBytes += body.memoryBytes;
      body.rejectArriving();
    }
  }
}

/** One body. It uses callbacks, because a promise per message would cost more than the reading. A long body is parsed in steps. */
class PostedBody {
  readonly #context: Context;
  readonly #bodies: PostedBodies;
  readonly holder: MemoryHolder;
  readonly #post: Post;
  readonly #receiver: MessageReceiver;
  /** 0 if it is unknown. */
  readonly #declaredBytes: number;
  readonly #parts: Buffer[] = [];
  #length = 0;
  #isAdmitted = false;
  /** True if the rest is not read. */
  #isDone = false;
  #isForwarded = false;
  /** The memory of a body that arrives in parts. */
  #reserved: Reservation | undefined;

  constructor(context: Context, bodies: PostedBodies, post: Post, receiver: MessageReceiver, declaredBytes: number) {
    [this.#context, this.#bodies, this.#post, this.#receiver] = [context, bodies, post, receiver];
    [this.holder, this.#declaredBytes] = [post.holder, declaredBytes];
  }

  /** The memory of the parts that have arrived. */
  get memoryBytes(): number {
    return this.#reserved?.bytes ?? 0;
  }

  /** Rejects it for lack of memory while it arrives, which frees its memory. */
  rejectArriving(): void {
    if (!this.#isDone) this.#reject(outOfMemory("The body was read only in part."));
  }

  readonly onPart = (part: Buffer): void => {
    if (this.#isDone) return;
    this.#length += part.length;
    const { maxBodyBytes } = this.#context.config;
    if (this.#length > maxBodyBytes) return this.#reject(tooLarge(maxBodyBytes));
    // A body in one part is read in this turn of the event loop.
    if (part.length !== this.#declaredBytes && !this.#reserve(part.length)) return this.rejectArriving();
    this.#parts.push(part);
    if (this.#isAdmitted || this.#length <= UNASKED_BYTES) return;
    this.#isAdmitted = true;
    if (!this.#isRejected()) return;
    this.#drop();
    discardBody(this.#post.request);
  };

  readonly onEnd = (): void => {
    if (this.#isDone) return;
    const [first] = this.#parts;
    const bytes = first !== undefined && this.#parts.length === 1 ? first : Buffer.concat(this.#parts);
    if (!isUtf8(bytes)) return this.#reject(new SidecarError("PARSE_ERROR", "The body is not valid UTF-8."));
    this.#isDone = true;
    this.#parts.length = 0;
    // A body that has arrived keeps its memory until it is forwarded.
    if (this.#reserved !== undefined) this.#bodies.arriving.delete(this);
    try {
      const text = bytes.toString("utf8");
      const trace = traceContextOf(this.#post.request.headers);
      if (text.length > LONG_TEXT_LENGTH) {
        runInSteps(
          readLong(text, trace),
          (reading) => this.#forward(reading),
          (error) => this.#fail(error),
        );
      } else if (trace === undefined) this.#forward(readText(text));
      else this.#forward(withoutSteps(addTraceContext(readText(text), trace)));
    } catch (error) {
      this.#fail(error);
    }
  };

  readonly onClose = (): void => {
    // This runs after every complete body too, so the error is created only if needed.
    if (!this.#isDone) this.#reject(new SidecarError("BODY_INCOMPLETE", "The connection closed before the whole request body arrived."));
  };

  /** @returns false if there is no memory for another part. */
  #reserve(partBytes: number): boolean {
    if (this.#reserved === undefined) {
      this.#reserved = this.#context.memory.account(this.holder).hold("bodies", 0);
      this.#bodies.arriving.add(this);
    }
    return this.#reserved.tryGrow(partMemoryBytes(partBytes));
  }

  /** Asks the receiver about a long body. @returns true if the request is answered. */
  #isRejected(): boolean {
    try {
      const isRejected = this.#receiver.rejectLong(this.#post, Buffer.concat(this.#parts));
      if (isRejected) this.#release();
      return isRejected;
    } catch (error) {
      this.#fail(error);
      return true;
    }
  }

  #forward(reading: Reading): void {
    try {
      const messages = reading.kind === "batch" ? checkClientBatch(reading) : checkClientMessage(reading);
      if ("code" in messages) return sendProblem(this.#post.response, messages);
      this.#isForwarded = true;
      this.#receiver.onMessages(this.#post, messages);
    } finally {
      // A request in the lane counts by itself.
      this.#reserved?.release();
    }
  }

  #reject(error: SidecarError): void {
    this.#drop();
    try {
      this.#release();
      this.#bodies.reject(this.#post, error);
    } catch (defect) {
      this.#fail(defect);
    }
  }

  #fail(error: unknown): void {
    this.#release();
    this.#context.defects.recover("http body", error, () => sendDefect(this.#post.response, this.#isForwarded));
  }

  #release(): void {
    this.#bodies.arriving.delete(this);
    this.#reserved?.release();
  }

  /** Reads no more. The listeners live until the request is answered, and would keep the parts in memory. */
  #drop(): void {
    this.#isDone = true;
    this.#parts.length = 0;
  }
}

function tooLarge(maxBytes: number): SidecarError {
  return new SidecarError("BODY_TOO_LARGE", `The request body is larger than ${maxBytes} bytes.`, { limitBytes: maxBytes });
}

function* readLong(text: string, trace: ReadonlyMap<string, string> | undefined): Generator<undefined, Reading> {
  const reading = yield* readInSteps(text);
  return trace === undefined ? reading : yield* addTraceContext(reading, trace);
}
