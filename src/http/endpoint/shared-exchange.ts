import type { SidecarError } from "../../errors.ts";
import type { ObservedRequest } from "../../observability/request-observer.ts";
import type { ResponseMessage } from "../../protocol/message.ts";
import type { Exchange } from "../../sessions/exchange.ts";
import type { Front } from "../front.ts";

/** An HTTP response that several requests share: that of a batch, or the only stream of an HTTP+SSE client. */
export interface SharedResponse extends Pick<Exchange, "sharedBy" | "isListening" | "emit" | "keepAlive"> {
  /** The HTTP status of the POST. */
  readonly httpStatus: number;
  /** Sends the JSON text of one response, now or with others. */
  respond(body: string, exchange: SharedExchange): void;
  /** Called when an exchange has finished, after its response, if it has one. */
  onFinished(exchange: SharedExchange): void;
}

/** One of the requests that share an HTTP response. */
export class SharedExchange implements Exchange {
  readonly idText: string;
  readonly acceptedAtMs: number;
  readonly observed: ObservedRequest | undefined;
  readonly #front: Front;
  readonly #shared: SharedResponse;
  #onDisconnect: (() => void) | undefined;
  #isFinished = false;

  constructor(front: Front, idText: string, acceptedAtMs: number, shared: SharedResponse, observed: ObservedRequest | undefined) {
    this.#front = front;
    this.idText = idText;
    this.acceptedAtMs = acceptedAtMs;
    this.#shared = shared;
    this.observed = observed;
  }

  get sharedBy(): number {
    return this.#shared.sharedBy;
  }

  get isListening(): boolean {
    return !this.#isFinished && this.#shared.isListening;
  }

  emit(body: string): boolean {
    return !this.#isFinished && this.#shared.emit(body);
  }

  keepAlive(): void {
    this.#shared.keepAlive();
  }

  respond(body: string, response?: ResponseMessage): void {
    this.#finish(body);
    this.observed?.onResponse(this.#shared.httpStatus, body, response);
  }

  fail(error: SidecarError): void {
    const body = this.#front.errorBody(error, this.idText);
    this.#finish(body);
    this.observed?.onFailed(this.#shared.httpStatus, error, body);
  }

  dismiss(): void {
    this.#finish(undefined);
    this.observed?.onUnanswered(this.#shared.httpStatus, "dismissed");
  }

  onDisconnect(listener: () => void): void {
    this.#onDisconnect = listener;
  }

  /** Must be called when the client has disconnected. */
  disconnect(): void {
    if (this.#isFinished) return;
    this.#isFinished = true;
    this.#onDisconnect?.();
    this.observed?.onUnanswered(this.#shared.httpStatus, "unread");
  }

  #finish(body: string | undefined): void {
    if (this.#isFinished) return;
    this.#isFinished = true;
    try {
      if (body !== undefined) this.#shared.respond(body, this);
    } catch (error) {
      // A defect prevented the response, so the exchange can still be finished with an error.
      this.#isFinished = false;
      throw error;
    }
    this.#shared.onFinished(this);
  }
}
