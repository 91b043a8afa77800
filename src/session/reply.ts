import type { Context } from "../context.ts";
import type { AskKinds } from "../mcp/capabilities.ts";
import { SidecarError } from "../mcp/errors.ts";
import type { ResponseMessage } from "../mcp/message.ts";
import { isErrorResponse, type RequestEnding, type RequestRecord } from "../observe/record.ts";

/** The kinds of questions that a client has declared, and those that it was not asked, because it has not. */
export interface Askable {
  declared: AskKinds;
  missing: AskKinds;
}

/**
 * Changes a response on its way to the client.
 *
 * @param text as the client would read it.
 * @param idText the JSON text of its id.
 * @param response the server's message, if the text differs in the id only.
 */
export type Transform = (text: string, idText: string, response?: ResponseMessage) => string | SidecarError;

/** An HTTP response, a part of one, or the sidecar itself, which has `finish` only. Nothing is called after `finish`. */
export interface ReplyTarget {
  readonly isListening?: boolean;
  emit?(text: string): boolean;
  keepAlive?(): void;
  /**
   * Called once, or again if it has thrown.
   *
   * @param outcome JSON text, or the error; undefined if the client has cancelled the request.
   * @returns the JSON text that was sent.
   */
  finish(outcome: string | SidecarError | undefined, reply: Reply): string | undefined;
}

/** The response to one request. It finishes exactly once, and is recorded then. */
export class Reply {
  /** The JSON text of the client's id. Empty for a batch, whose requests have replies of their own. */
  readonly idText: string;
  /** When the HTTP request arrived. Its timeout starts here. */
  readonly acceptedAtMs: number;
  /** Undefined for a request of the sidecar itself. */
  record: RequestRecord | undefined;
  /** The level that the request names; `off` for no log messages. */
  logLevel: string | undefined;
  askable: Askable | undefined;
  /** Called once if the client disconnects before the end, and cannot reconnect. */
  onDisconnect: (() => void) | undefined;
  /** Called once: before the response, while the client still accepts messages, or after a disconnect. */
  onEnd: (() => void) | undefined;
  /** Applied from the last to the first. */
  readonly transforms: Transform[] = [];
  /** The request counts until its end. */
  isAccepted = false;
  isFinished = false;
  readonly #context: Context;
  readonly #target: ReplyTarget;

  constructor(context: Context, idText: string, acceptedAtMs: number, target: ReplyTarget) {
    this.#context = context;
    this.idText = idText;
    this.acceptedAtMs = acceptedAtMs;
    this.#target = target;
  }

  /** A message before the response reaches the client at once. */
  get isListening(): boolean {
    return !this.isFinished && this.#target.isListening === true;
  }

  /** Counts once, though one server may refuse the request and another take it. */
  accept(): void {
    if (this.isAccepted) return;
    this.isAccepted = true;
    this.#context.counters.requests.accepted++;
  }

  /** Before the response. @returns false if the client does not accept messages here. */
  emit(text: string): boolean {
    return !this.isFinished && this.#target.emit?.(text) === true;
  }

  /** Begins a slow response, if the client accepts a stream. May be called again. */
  keepAlive(): void {
    if (!this.isFinished) this.#target.keepAlive?.();
  }

  /**
   * If a defect prevents the response, the reply can still be finished with an error.
   *
   * @param outcome JSON text, which the transforms change, or an error; undefined if the client has cancelled the request.
   * @param response the server's message, if the text differs from it in the id only.
   */
  respond(outcome: string | SidecarError | undefined, response?: ResponseMessage): void {
    let [shown, known] = [outcome, response];
    for (let index = this.transforms.length - 1; index >= 0 && typeof shown === "string"; index--) {
      const changed = this.transforms[index]?.(shown, this.idText, known);
      if (changed === undefined || changed === shown) continue;
      [shown, known] = [changed, undefined];
    }
    if (this.isFinished) return;
    if (this.onEnd !== undefined) this.#callOnEnd();
    if (this.isFinished) return;
    this.isFinished = true;
    let body: string | undefined;
    try {
      body = this.#target.finish(shown, this);
    } catch (error) {
      this.isFinished = false;
      throw error;
    }
    const { record, isAccepted } = this;
    if (!isAccepted && record === undefined) return;
    let ending: RequestEnding = "dismissed";
    if (shown instanceof SidecarError) {
      ending = shown.code;
      if (record !== undefined) record.isRejected = !shown.details.sent;
    } else if (body !== undefined) {
      // The target may have had no room for the response.
      const isError = body === shown && known !== undefined ? known.isError : isErrorResponse(body);
      ending = isError ? "errors" : "results";
    }
    this.#context.records.ended(record, isAccepted, ending, body);
  }

  /** @param text the JSON text of the member. */
  answer(member: "result" | "error", text: string): void {
    this.respond(`{"jsonrpc":"2.0","id":${this.idText},"${member}":${text}}`);
  }

  fail(error: SidecarError): void {
    this.respond(error);
  }

  /** It counts as rejected, unless it was accepted before. */
  refuse(error: SidecarError): void {
    if (!this.isAccepted && !this.isFinished) this.#context.counters.byKey.refusals.count(error.code);
    this.respond(error);
  }

  dismiss(): void {
    this.respond(undefined);
  }

  /** The client has disconnected and cannot reconnect. */
  disconnect(): void {
    if (this.isFinished) return;
    this.isFinished = true;
    const { defects, records } = this.#context;
    defects.guard("client disconnect", () => this.onDisconnect?.());
    defects.guard("client disconnect", () => this.#callOnEnd());
    records.ended(this.record, this.isAccepted, "unread");
  }

  #callOnEnd(): void {
    const { onEnd } = this;
    this.onEnd = undefined;
    onEnd?.();
  }
}
