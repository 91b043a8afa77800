import type { Context } from "../context.ts";
import type { AskKinds } from "../mcp/capabilities.ts";
import { SidecarError } from "../mcp/errors.ts";
import type { ResponseMessage } from "../mcp/message.ts";
import { isErrorResponse, type RequestEnding, type RequestRecord } from "../observe/record.ts";

/** What the server may ask the client of a call: the kinds that the client has declared, and those that it was not asked, because it has not. */
export interface Askable {
  declared: AskKinds;
  missing: AskKinds;
}

/**
 * Changes a response on its way to the client.
 *
 * @param text a JSON-RPC response as the client would read it.
 * @param idText the JSON text of its id.
 * @param response the server's message, if the text differs from it in the id only.
 * @returns the text or the error that the client gets in its place.
 */
export type Transform = (text: string, idText: string, response?: ResponseMessage) => string | SidecarError;

/**
 * Where a reply goes: an HTTP response, a part of one, or the sidecar itself, which has `finish` only. The reply calls it in order, and nothing
 * after `finish`. For the other members see `Reply`.
 */
export interface ReplyTarget {
  readonly isListening?: boolean;
  emit?(text: string): boolean;
  keepAlive?(): void;
  /**
   * Sends the response. Called once, or again if the first call has thrown.
   *
   * @param outcome its JSON text, or the error; undefined if there is none, because the client has cancelled the request.
   * @returns the JSON text that was sent.
   */
  finish(outcome: string | SidecarError | undefined, reply: Reply): string | undefined;
}

/** Carries the response to one request. It finishes exactly once, and is recorded then. */
export class Reply {
  /** The JSON text of the client's request id. The response has the same text. Empty for a batch, whose requests have replies of their own. */
  readonly idText: string;
  /** The time at which the HTTP request arrived. Its timeout starts here. */
  readonly acceptedAtMs: number;
  /** Undefined for a request of the sidecar itself. */
  record: RequestRecord | undefined;
  /** The least severe log messages that the client wants for this request; `off` for none. Undefined if the request does not say. */
  logLevel: string | undefined;
  /** Undefined if the server cannot ask anything during the request. */
  askable: Askable | undefined;
  /** Called once if the client disconnects before the reply has finished, and cannot reconnect for the response. */
  onDisconnect: (() => void) | undefined;
  /** Called once at the end: before the response, while the client still accepts messages, or after a disconnect. */
  onEnd: (() => void) | undefined;
  /** Change the response; applied from the last to the first. */
  readonly transforms: Transform[] = [];
  /** True if the request was accepted, and counts until its end. Only the reply changes it. */
  isAccepted = false;
  /** Only the reply changes it. */
  isFinished = false;
  readonly #context: Context;
  readonly #target: ReplyTarget;

  constructor(context: Context, idText: string, acceptedAtMs: number, target: ReplyTarget) {
    this.#context = context;
    this.idText = idText;
    this.acceptedAtMs = acceptedAtMs;
    this.#target = target;
  }

  /** True if a message that is sent before the response reaches the client at once. */
  get isListening(): boolean {
    return !this.isFinished && this.#target.isListening === true;
  }

  /** Must be called when a client's request is accepted. It counts once, though one server may refuse it and another take it. */
  accept(): void {
    if (this.isAccepted) return;
    this.isAccepted = true;
    this.#context.counters.requests.accepted++;
  }

  /** Sends a notification or a server's request before the response. @returns false if the client does not accept messages here. */
  emit(text: string): boolean {
    return !this.isFinished && this.#target.emit?.(text) === true;
  }

  /** Begins a slow response, if the client accepts a stream. May be called again. */
  keepAlive(): void {
    if (!this.isFinished) this.#target.keepAlive?.();
  }

  /**
   * Finishes with a JSON-RPC response, which has the client's request id.
   *
   * @param response the server's message, if the text differs from it in the id only.
   */
  respond(text: string, response?: ResponseMessage): void {
    let [shown, known] = [text, response];
    for (let index = this.transforms.length - 1; index >= 0; index--) {
      const changed = this.transforms[index]?.(shown, this.idText, known);
      if (changed instanceof SidecarError) return this.#end(changed);
      if (changed === undefined || changed === shown) continue;
      [shown, known] = [changed, undefined];
    }
    this.#end(shown, known);
  }

  fail(error: SidecarError): void {
    this.#end(error);
  }

  /** Rejects the request. It counts as rejected, unless it was accepted before. */
  refuse(error: SidecarError): void {
    if (!this.isAccepted && !this.isFinished) this.#context.counters.byKey.refusals.count(error.code);
    this.#end(error);
  }

  /** Finishes without a response, because the client has cancelled the request. */
  dismiss(): void {
    this.#end(undefined);
  }

  /** Must be called when the client has disconnected and cannot reconnect for the response. */
  disconnect(): void {
    if (this.isFinished) return;
    this.isFinished = true;
    const { defects } = this.#context;
    defects.guard("client disconnect", () => this.onDisconnect?.());
    defects.guard("client disconnect", () => this.#callOnEnd());
    this.#record("unread");
  }

  /** If a defect prevents the response, the reply can still be finished with an error. */
  #end(outcome: string | SidecarError | undefined, response?: ResponseMessage): void {
    if (this.isFinished) return;
    if (this.onEnd !== undefined) this.#callOnEnd();
    if (this.isFinished) return;
    this.isFinished = true;
    let body: string | undefined;
    try {
      body = this.#target.finish(outcome, this);
    } catch (error) {
      this.isFinished = false;
      throw error;
    }
    if (!this.isAccepted && this.record === undefined) return;
    if (outcome instanceof SidecarError) {
      if (this.record !== undefined) this.record.isRejected = !outcome.details.sent;
      return this.#record(outcome.code, body);
    }
    if (body === undefined) return this.#record("dismissed");
    // The target may have had no room for the response.
    const isError = body === outcome && response !== undefined ? response.isError : isErrorResponse(body);
    this.#record(isError ? "errors" : "results", body);
  }

  #callOnEnd(): void {
    const { onEnd } = this;
    this.onEnd = undefined;
    onEnd?.();
  }

  /** Each client's request is recorded here, as its client has seen the end. */
  #record(ending: RequestEnding, body?: string): void {
    const { counters, records } = this.#context;
    if (this.isAccepted) {
      if (ending === "results" || ending === "errors" || ending === "dismissed" || ending === "unread") counters.answers[ending]++;
      else counters.byKey.failures.count(ending);
    }
    if (this.record !== undefined) records.ended(this.record, ending, body);
  }
}
