import type { IncomingMessage } from "node:http";
import type { Defects } from "../../observability/defects.ts";
import { SidecarError } from "../../errors.ts";
import { Shape } from "../../json/outline.ts";
import { JsonScanner } from "../../json/scan.ts";
import { checkClientBatch, checkClientMessage } from "../../protocol/client-message.ts";
import { LONG_TEXT_LENGTH, type Message, readInSteps, type Reading, readText } from "../../protocol/message.ts";
import { runInSteps } from "../../timing/step-queue.ts";
import { sendDefect, sendProblem } from "../json-response.ts";
import type { Reservation } from "../../memory/memory-budget.ts";
import { type BodyReader, readBody } from "./read-body.ts";
import { reject } from "../reject.ts";
import type { Post } from "../route.ts";

export interface ReadMessagesOptions {
  readonly maxBodyBytes: number;
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
  readBody(post.request, options.maxBodyBytes, new PostedBody(post, options.defects, receiver));
}

/** A body that arrives in parts is copied into one text at its end. */
const BODY_COPIES = 3;
/** The memory of a part besides its bytes. */
const PART_BYTES = 256;

class PostedBody implements BodyReader {
  readonly #post: Post;
  readonly #defects: Defects;
  readonly #receiver: MessageReceiver;
  #isForwarded = false;
  #reserved: Reservation | undefined;

  constructor(post: Post, defects: Defects, receiver: MessageReceiver) {
    this.#post = post;
    this.#defects = defects;
    this.#receiver = receiver;
  }

  hasRoomFor(bodyBytes: number): boolean {
    return this.#post.memory.hasRoomFor(bodyBytes * BODY_COPIES);
  }

  reserve(partBytes: number): boolean {
    this.#reserved ??= this.#post.memory.hold("bodies", 0);
    return this.#reserved.tryGrow(partBytes * BODY_COPIES + PART_BYTES);
  }

  isRejected(beginning: Buffer): boolean {
    try {
      const isRejected = this.#receiver.rejectLong(this.#post, beginning);
      if (isRejected) this.#reserved?.release();
      return isRejected;
    } catch (error) {
      this.#fail(error);
      return true;
    }
  }

  onBody(body: string | SidecarError): void {
    const { request, response } = this.#post;
    try {
      if (body instanceof SidecarError) {
        this.#reserved?.release();
        reject(request, response, body);
      } else if (body.length <= LONG_TEXT_LENGTH) this.#forward(readText(body));
      else {
        runInSteps(
          readInSteps(body),
          (reading) => this.#forward(reading),
          (error) => this.#fail(error),
        );
      }
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

  #fail(error: unknown): void {
    this.#reserved?.release();
    this.#defects.recover("http body", error, () => sendDefect(this.#post.response, this.#isForwarded));
  }
}

/** The first revision whose requests have no session (MCP 2026-07-28, basic/transports). */
const FIRST_WITHOUT_SESSIONS = "2026-07-28";

const METHOD = new Shape({ method: {} });

/** True if the beginning of a body is that of `initialize`, or if the request is of a revision without sessions. */
export function needsNoSession({ headers }: IncomingMessage, beginning: Buffer): boolean {
  const { "mcp-protocol-version": protocolVersion } = headers;
  if (/^\d{4}-\d{2}-\d{2}$/.test(String(protocolVersion)) && String(protocolVersion) >= FIRST_WITHOUT_SESSIONS) return true;
  const scanner = new JsonScanner(beginning.toString("utf8"), METHOD);
  scanner.advance();
  return scanner.outline.isString(METHOD.slotOf("method"), "initialize");
}
