import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { JsonScanner, Shape } from "../json/read.ts";
import { checkClientBatch, checkClientMessage } from "../mcp/client-message.ts";
import { SidecarError } from "../mcp/errors.ts";
import { LONG_TEXT_LENGTH, type Message, type Reading, readInSteps, readText, withoutSteps } from "../mcp/message.ts";
import { addTraceContext, type TraceContext, traceContextOf } from "../mcp/trace-context.ts";
import { isModernVersion } from "../mcp/versions.ts";
import { bodyMemoryBytes, type MemoryHolder, partMemoryBytes, type Reservation } from "../memory.ts";
import type { Counters } from "../observe/counters.ts";
import type { Defects } from "../observe/log.ts";
import { outOfMemory } from "../server/failures.ts";
import { runInSteps } from "../timers.ts";
import { discardBody, hasJsonBody, type Post, reject, sendDefect, sendProblem } from "./response.ts";

const NOT_READ = "The body was not read.";
const PARTLY_READ = "The body was read only in part.";

/** Bytes that are read before `isRejected` decides about the rest. */
const UNASKED_BYTES = 64 * 1024;

interface BodyReader {
  /** Called once, before more than 64 KiB are read, with the data that has arrived. @returns true if it has answered the request. */
  isRejected(beginning: Buffer): boolean;
  /** Called before the body is read. @param bodyBytes its declared size; 0 if it is unknown. @returns false if there is no memory for it. */
  hasRoomFor(bodyBytes: number): boolean;
  /** Called for each part of a body that arrives in parts. @returns false if there is no memory for it. */
  reserve(partBytes: number): boolean;
  /** Called once with the text or the error, unless the request is rejected. */
  onBody(body: string | SidecarError): void;
}

/**
 * Reads a whole body as text. Its media type must be JSON. It uses callbacks, because a promise per message would cost more than the
 * reading.
 *
 * @returns a function that rejects the body for lack of memory, if it is still arriving.
 */
function readBody(request: IncomingMessage, maxBytes: number, reader: BodyReader): () => void {
  if (!hasJsonBody(request)) {
    reader.onBody(new SidecarError("UNSUPPORTED_MEDIA_TYPE", "The body must be application/json in UTF-8, uncompressed."));
    return () => undefined;
  }
  const declaredBytes = Number(request.headers["content-length"] ?? 0);
  if (declaredBytes > maxBytes) {
    reader.onBody(tooLarge(maxBytes));
    return () => undefined;
  }
  if (!reader.hasRoomFor(declaredBytes)) {
    reader.onBody(outOfMemory(NOT_READ));
    return () => undefined;
  }
  let first: Buffer | undefined;
  let rest: Buffer[] | undefined;
  let length = 0;
  let isAdmitted = false;
  let isDone = false;
  const beginning = (): Buffer => (rest === undefined ? (first ?? Buffer.alloc(0)) : Buffer.concat(rest));
  const finish = (body: string | SidecarError): void => {
    if (isDone) return;
    isDone = true;
    // The listeners live until the request is answered, and would keep the chunks in memory.
    first = rest = undefined;
    reader.onBody(body);
  };
  request.on("data", (chunk: Buffer) => {
    length += chunk.length;
    if (isDone) return;
    if (length > maxBytes) finish(tooLarge(maxBytes));
    // A body in one part is read in this turn of the event loop.
    else if (chunk.length !== declaredBytes && !reader.reserve(chunk.length)) finish(outOfMemory(PARTLY_READ));
    else if (first === undefined) first = chunk;
    else (rest ??= [first]).push(chunk);
    if (isAdmitted || isDone || length <= UNASKED_BYTES) return;
    isAdmitted = true;
    if (!reader.isRejected(beginning())) return;
    isDone = true;
    first = rest = undefined;
    discardBody(request);
  });
  request.on("end", () => {
    if (isDone) return;
    const bytes = beginning();
    finish(isUtf8(bytes) ? bytes.toString("utf8") : new SidecarError("PARSE_ERROR", "The body is not valid UTF-8."));
  });
  const onEnded = (): void => {
    // This runs after every complete body too, so the error is created only if needed.
    if (!isDone) finish(incomplete());
  };
  request.on("error", onEnded);
  request.on("close", onEnded);
  return () => finish(outOfMemory(PARTLY_READ));
}

function tooLarge(maxBytes: number): SidecarError {
  return new SidecarError("BODY_TOO_LARGE", `The request body is larger than ${maxBytes} bytes.`, { limitBytes: maxBytes });
}

function incomplete(): SidecarError {
  return new SidecarError("BODY_INCOMPLETE", "The connection closed before the whole request body arrived.");
}

/** A body that arrives in parts. */
interface ArrivingBody {
  readonly holder: MemoryHolder;
  /** The memory of the parts that have arrived. */
  readonly bytes: number;
  /** Rejects it for lack of memory, which frees its memory. */
  reject(): void;
}

/** The bodies that arrive in parts, by client. */
export class ArrivingBodies {
  readonly #byHolder = new Map<MemoryHolder, Set<ArrivingBody>>();

  add(body: ArrivingBody): void {
    const bodies = this.#byHolder.get(body.holder) ?? new Set();
    this.#byHolder.set(body.holder, bodies.add(body));
  }

  delete(body: ArrivingBody): void {
    const bodies = this.#byHolder.get(body.holder);
    bodies?.delete(body);
    if (bodies?.size === 0) this.#byHolder.delete(body.holder);
  }

  /** Rejects bodies of a client until this much memory is free. Those that have taken longest are first. */
  reject(bytes: number, holder: MemoryHolder): void {
    let freeBytes = 0;
    for (const body of this.#byHolder.get(holder) ?? []) {
      if (freeBytes >= bytes) return;
      freeBytes += body.bytes;
      body.reject();
    }
  }
}

interface ReadMessagesOptions {
  readonly maxBodyBytes: number;
  readonly bodies: ArrivingBodies;
  readonly counters: Pick<Counters, "countRefusal">;
  readonly defects: Defects;
}

/** Receives the messages of POST requests. One receiver serves all requests of a route. */
export interface MessageReceiver {
  /** Called before more than 64 KiB are read, with the data that has arrived. @returns true if it has answered the request. */
  rejectLong(post: Post, beginning: Buffer): boolean;
  /** Called at most once for a POST. It may be called in a later turn, after the client has disconnected. */
  onMessages(post: Post, messages: Message | Message[]): void;
}

/** Reads the body of a POST, and rejects it if it is neither a message nor a batch. A long body is parsed in steps. */
export function readMessages(post: Post, options: ReadMessagesOptions, receiver: MessageReceiver): void {
  const body = new PostedBody(post, options, receiver);
  body.onReading(readBody(post.request, options.maxBodyBytes, body));
}

class PostedBody implements BodyReader, ArrivingBody {
  readonly #post: Post;
  readonly #bodies: ArrivingBodies;
  readonly #counters: Pick<Counters, "countRefusal">;
  readonly #defects: Defects;
  readonly #receiver: MessageReceiver;
  #reject: (() => void) | undefined;
  #isForwarded = false;
  #reserved: Reservation | undefined;

  constructor(post: Post, { bodies, counters, defects }: ReadMessagesOptions, receiver: MessageReceiver) {
    this.#post = post;
    this.#bodies = bodies;
    this.#counters = counters;
    this.#defects = defects;
    this.#receiver = receiver;
  }

  get holder(): MemoryHolder {
    return this.#post.memory.holder;
  }

  get bytes(): number {
    return this.#reserved?.bytes ?? 0;
  }

  /** @param rejectArriving rejects the body while it arrives. */
  onReading(rejectArriving: () => void): void {
    this.#reject = rejectArriving;
  }

  reject(): void {
    this.#reject?.();
  }

  hasRoomFor(bodyBytes: number): boolean {
    return this.#post.memory.hasRoomFor(bodyMemoryBytes(bodyBytes));
  }

  reserve(partBytes: number): boolean {
    if (this.#reserved === undefined) {
      this.#reserved = this.#post.memory.hold("bodies", 0);
      this.#bodies.add(this);
    }
    return this.#reserved.tryGrow(partMemoryBytes(partBytes));
  }

  isRejected(beginning: Buffer): boolean {
    try {
      const isRejected = this.#receiver.rejectLong(this.#post, beginning);
      if (isRejected) this.#release();
      return isRejected;
    } catch (error) {
      this.#fail(error);
      return true;
    }
  }

  onBody(body: string | SidecarError): void {
    const { request, response } = this.#post;
    // A body that has arrived keeps its memory until it is forwarded.
    this.#bodies.delete(this);
    try {
      if (body instanceof SidecarError) {
        this.#release();
        // Other errors are those of HTTP requests, which the counters of their statuses show.
        if (body.code === "OUT_OF_MEMORY") this.#counters.countRefusal(body.code);
        reject(request, response, body);
        return;
      }
      const trace = traceContextOf(request.headers);
      if (body.length > LONG_TEXT_LENGTH) {
        runInSteps(
          readLong(body, trace),
          (reading) => this.#forward(reading),
          (error) => this.#fail(error),
        );
      } else if (trace === undefined) this.#forward(readText(body));
      else this.#forward(withoutSteps(addTraceContext(readText(body), trace)));
    } catch (error) {
      this.#fail(error);
    }
  }

  #forward(reading: Reading): void {
    try {
      this.#forwardReserved(reading);
    } finally {
      // A request in the lane counts by itself.
      this.#reserved?.release();
    }
  }

  #forwardReserved(reading: Reading): void {
    const messages = reading.kind === "batch" ? checkClientBatch(reading) : checkClientMessage(reading);
    if ("code" in messages) sendProblem(this.#post.response, messages);
    else {
      this.#isForwarded = true;
      this.#receiver.onMessages(this.#post, messages);
    }
  }

  #release(): void {
    this.#bodies.delete(this);
    this.#reserved?.release();
  }

  #fail(error: unknown): void {
    this.#release();
    this.#defects.recover("http body", error, () => sendDefect(this.#post.response, this.#isForwarded));
  }
}

function* readLong(body: string, trace: TraceContext | undefined): Generator<undefined, Reading> {
  const reading = yield* readInSteps(body);
  return trace === undefined ? reading : yield* addTraceContext(reading, trace);
}

const METHOD = new Shape({ method: {} });

/** True if the beginning of a body is that of `initialize`, or if the request is of a revision without sessions. */
export function needsNoSession({ headers }: IncomingMessage, beginning: Buffer): boolean {
  if (isModernVersion(headers["mcp-protocol-version"]?.toString())) return true;
  const scanner = new JsonScanner(beginning.toString("utf8"), METHOD);
  scanner.advance();
  return scanner.outline.isString(METHOD.slotOf("method"), "initialize");
}
