import type { SidecarError } from "../../errors.ts";
import type { Exchange } from "../../sessions/exchange.ts";
import { internalError } from "../../lane/failures.ts";
import { errorBody } from "../error-response.ts";
import type { PostExchange } from "./post-exchange.ts";

/**
 * A batch of revision 2025-03-26: several requests in one POST, each with its own exchange. The responses are sent as one array, or as
 * one event each if a stream has begun.
 */
export class PostBatch {
  readonly #whole: PostExchange;
  readonly #exchanges: BatchedExchange[] = [];
  #responses: string[] = [];
  #open = 0;

  /** @param whole the exchange of the POST. */
  constructor(whole: PostExchange) {
    this.#whole = whole;
    whole.onDisconnect = () => {
      for (const { onDisconnect } of this.#exchanges) onDisconnect?.();
    };
  }

  /** Must be called for all requests of the batch before the first of them is forwarded. */
  add(idText: string): Exchange {
    const exchange = new BatchedExchange(idText, this.#whole.acceptedAtMs, this);
    this.#exchanges.push(exchange);
    this.#open++;
    return exchange;
  }

  get size(): number {
    return this.#exchanges.length;
  }

  get isListening(): boolean {
    return this.#whole.isListening;
  }

  emit(body: string): boolean {
    return this.#whole.emit(body);
  }

  keepAlive(): void {
    this.#whole.keepAlive();
  }

  /** @param response undefined for a request without a response. */
  finish(response: string | undefined): void {
    if (response !== undefined) this.#responses.push(response);
    this.#open--;
    try {
      if (this.#whole.isStream) {
        for (const each of this.#responses) this.#whole.emit(each);
        this.#responses = [];
      }
      if (this.#open > 0) return;
      if (this.#responses.length > 0) this.#whole.respond(`[${this.#responses.join(",")}]`);
      else this.#whole.dismiss();
    } catch (error) {
      // After a defect, the whole batch fails, since this exchange has already finished.
      this.#whole.fail(internalError(true));
      throw error;
    }
  }
}

class BatchedExchange implements Exchange {
  readonly idText: string;
  readonly acceptedAtMs: number;
  readonly #batch: PostBatch;
  onDisconnect: (() => void) | undefined;
  #isFinished = false;

  constructor(idText: string, acceptedAtMs: number, batch: PostBatch) {
    this.idText = idText;
    this.acceptedAtMs = acceptedAtMs;
    this.#batch = batch;
  }

  get sharedBy(): number {
    return this.#batch.size;
  }

  get isListening(): boolean {
    return !this.#isFinished && this.#batch.isListening;
  }

  emit(body: string): boolean {
    return !this.#isFinished && this.#batch.emit(body);
  }

  keepAlive(): void {
    this.#batch.keepAlive();
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

  #finish(response: string | undefined): void {
    if (this.#isFinished) return;
    this.#isFinished = true;
    this.onDisconnect = undefined;
    this.#batch.finish(response);
  }
}
