import type { SidecarError } from "../../errors.ts";
import type { Exchange } from "../../sessions/exchange.ts";
import type { Front } from "../front.ts";

/** An HTTP response that several requests share: that of a batch, or the only stream of an HTTP+SSE client. */
export interface SharedResponse extends Pick<Exchange, "sharedBy" | "isListening" | "emit" | "keepAlive"> {
  /** Sends the JSON text of one response, now or with others. */
  respond(body: string, exchange: SharedExchange): void;
  /** Called when an exchange has finished, after its response, if it has one. */
  onFinished(exchange: SharedExchange): void;
}

/** One of the requests that share an HTTP response. */
export class SharedExchange implements Exchange {
  readonly idText: string;
  readonly acceptedAtMs: number;
  readonly #front: Front;
  readonly #shared: SharedResponse;
  #onDisconnect: (() => void) | undefined;
  #isFinished = false;

  constructor(front: Front, idText: string, acceptedAtMs: number, shared: SharedResponse) {
    this.#front = front;
    this.idText = idText;
    this.acceptedAtMs = acceptedAtMs;
    this.#shared = shared;
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

  respond(body: string): void {
    this.#finish(body);
  }

  fail(error: SidecarError): void {
    this.#finish(this.#front.errorBody(error, this.idText));
  }

  dismiss(): void {
    this.#finish(undefined);
  }

  onDisconnect(listener: () => void): void {
    this.#onDisconnect = listener;
  }

  /** Must be called when the client has disconnected. */
  disconnect(): void {
    if (this.#isFinished) return;
    this.#isFinished = true;
    this.#onDisconnect?.();
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
