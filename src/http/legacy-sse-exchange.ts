import type { SidecarError } from "../errors.ts";
import type { Exchange } from "../mux/exchange.ts";
import { errorBody } from "./error-response.ts";

/** One request of a client of HTTP+SSE: its POST was answered 202 long ago; the response goes out on the client's one stream. */
export class LegacySseExchange implements Exchange {
  readonly idText: string;
  readonly acceptedAtMs: number;
  readonly sharedBy = 0;
  onDisconnect: (() => void) | undefined;
  readonly #send: (text: string) => boolean;
  readonly #onFinished: () => void;
  #isFinished = false;

  /** @param onFinished called after the response was sent, or when there is none to send. */
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
    // The stream is kept alive as a whole.
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

  /** The client is gone. */
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
      // A defect that keeps the one answer from being given leaves it to be given otherwise.
      this.#isFinished = false;
      throw error;
    }
    this.#onFinished();
  }
}
