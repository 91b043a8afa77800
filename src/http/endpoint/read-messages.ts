import type { IncomingMessage } from "node:http";
import type { Counters } from "../../observability/counters.ts";
import type { Defects } from "../../observability/defects.ts";
import { SidecarError } from "../../errors.ts";
import { Shape } from "../../json/outline.ts";
import { JsonScanner } from "../../json/scan.ts";
import { checkClientBatch, checkClientMessage } from "../../protocol/client-message.ts";
import { LONG_TEXT_LENGTH, type Message, readInSteps, type Reading, readText, withoutSteps } from "../../protocol/message.ts";
import { addTraceContext, type TraceContext, traceContextOf } from "../../protocol/trace-context.ts";
import { isModernVersion } from "../../protocol/versions.ts";
import { runInSteps } from "../../timing/step-queue.ts";
import { sendDefect, sendProblem } from "../json-response.ts";
import { bodyMemoryBytes, partMemoryBytes } from "../../memory/body-memory.ts";
import type { MemoryHolder, Reservation } from "../../memory/memory-budget.ts";
import type { ArrivingBodies, ArrivingBody } from "./arriving-bodies.ts";
import { type BodyReader, readBody } from "./read-body.ts";
import { reject } from "../reject.ts";
import type { Post } from "../route.ts";

export interface ReadMessagesOptions {
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
