import type { SidecarError } from "../../errors.ts";
import type { Exchange } from "../../sessions/exchange.ts";
import { errorBody } from "../error-response.ts";

/** A request of an HTTP+SSE client. Its POST has been answered with 202, and the response is sent on the client's only stream. */
export class LegacySseExchange implements Exchange {
  readonly idText: string;
  readonly acceptedAtMs: number;
  readonly sharedBy = 0;
  onDisconnect: (() => void) | undefined;
  readonly #send: (text: string) => boolean;
  readonly #onFinished: () => void;
  #isFinished = false;

  /** @param onFinished called when the exchange has finished, after its response, if any, was sent. */
  constructor(idText: string, acceptedAtMs: number, send: (text: string) => boolean, onFinished: () => void) {
    this.idText = idText;
    this.acceptedAtMs = acceptedAtMs;
    this.#send = send;
    this.#onFinished = onFinished;
  }

  get isListening(): boolean {
    return !this.#isFinished;
  }

  emit(body: string): boolean {
    return !this.#isFinished && this.#send(body);
  }

  keepAlive(): void {
    // The connection of the stream sends its own comments.
  }

  respond(body: string): void {
    this.#finish(body);
  }

  fail(error: SidecarError): void {
    this.#finish(errorBody(error, this.idText));
  }

  dismiss(): void {
    this.#finish(undefined);
  }

  /** Must be called when the client has disconnected. */
  disconnect(): void {
    if (this.#isFinished) return;
    this.#isFinished = true;
    this.onDisconnect?.();
  }

  #finish(response: string | undefined): void {
    if (this.#isFinished) return;
    this.#isFinished = true;
    try {
      if (response !== undefined) this.#send(response);
    } catch (error) {
      // A defect prevented the response, so the exchange can still be finished with an error.
      this.#isFinished = false;
      throw error;
    }
    this.#onFinished();
  }
}
