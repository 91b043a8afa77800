import type { IncomingMessage } from "node:http";
import type { Defects } from "../defects.ts";
import { SidecarError } from "../errors.ts";
import { Shape } from "../json/outline.ts";
import { JsonScanner } from "../json/scan.ts";
import { checkClientBatch, checkClientMessage } from "../jsonrpc/client-message.ts";
import { LONG_TEXT_LENGTH, type Message, readInSteps, type Reading, readText } from "../jsonrpc/message.ts";
import { runInSteps } from "../step-queue.ts";
import { sendDefect, sendProblem } from "./json-response.ts";
import { type BodyReader, readBody } from "./read-body.ts";
import { refuse } from "./refuse.ts";
import type { Post } from "./route.ts";

export interface ReadMessagesOptions {
  readonly maxBodyBytes: number;
  readonly defects: Defects;
}

/** Takes what POSTs bring. One for all POSTs of a route. */
export interface MessageReceiver {
  /** Asked before more than 64 KiB are read; `beginning` is what has come so far. @returns whether it has answered. */
  readonly refuseLong: (post: Post, beginning: Buffer) => boolean;
  /** Called once at most for a POST, maybe in a later turn; by then the client may be gone. */
  readonly onMessages: (post: Post, messages: Message | Message[]) => void;
}

/** Reads what a POST brings, and refuses it if it is not a message, or a batch of them. A long body is read in steps. */
export function readMessages(post: Post, options: ReadMessagesOptions, receiver: MessageReceiver): void {
  readBody(post.request, options.maxBodyBytes, new PostedBody(post, options.defects, receiver));
}

class PostedBody implements BodyReader {
  readonly #post: Post;
  readonly #defects: Defects;
  readonly #receiver: MessageReceiver;
  #isHandedOn = false;

  constructor(post: Post, defects: Defects, receiver: MessageReceiver) {
    this.#post = post;
    this.#defects = defects;
    this.#receiver = receiver;
  }

  isRefused(beginning: Buffer): boolean {
    try {
      return this.#receiver.refuseLong(this.#post, beginning);
    } catch (error) {
      this.#fail(error);
      return true;
    }
  }

  onBody(body: string | SidecarError): void {
    const { request, response } = this.#post;
    try {
      if (body instanceof SidecarError) refuse(request, response, body);
      else if (body.length <= LONG_TEXT_LENGTH) this.#handOn(readText(body));
      else {
        runInSteps(
          readInSteps(body),
          (reading) => this.#handOn(reading),
          (error) => this.#fail(error),
        );
      }
    } catch (error) {
      this.#fail(error);
    }
  }

  #handOn(reading: Reading): void {
    const messages = reading.kind === "batch" ? checkClientBatch(reading) : checkClientMessage(reading);
    if ("code" in messages) sendProblem(this.#post.response, messages);
    else {
      this.#isHandedOn = true;
      this.#receiver.onMessages(this.#post, messages);
    }
  }

  #fail(error: unknown): void {
    this.#defects.recover("http body", error, () => sendDefect(this.#post.response, this.#isHandedOn));
  }
}

/** The first revision whose requests have no session (MCP 2026-07-28, basic/transports). */
const FIRST_WITHOUT_SESSIONS = "2026-07-28";

const METHOD = new Shape({ method: {} });

/** True for a long body of `initialize`, as far as its beginning tells, or of a revision without sessions. */
export function needsNoSession({ headers }: IncomingMessage, beginning: Buffer): boolean {
  const { "mcp-protocol-version": protocolVersion } = headers;
  if (/^\d{4}-\d{2}-\d{2}$/.test(String(protocolVersion)) && String(protocolVersion) >= FIRST_WITHOUT_SESSIONS) return true;
  const scanner = new JsonScanner(beginning.toString("utf8"), METHOD);
  scanner.advance();
  return scanner.outline.isString(METHOD.slotOf("method"), "initialize");
}
