import type { Exchange } from "../../sessions/exchange.ts";
import { internalError } from "../../lane/failures.ts";
import type { Front } from "../front.ts";
import { SharedExchange, type SharedResponse } from "./shared-exchange.ts";
import type { PostExchange } from "./post-exchange.ts";

/**
 * A batch of revision 2025-03-26: several requests in one POST, each with its own exchange. The responses are sent as one array, or as
 * one event each if a stream has begun.
 */
export class PostBatch implements SharedResponse {
  readonly #front: Front;
  readonly #whole: PostExchange;
  readonly #exchanges: SharedExchange[] = [];
  #responses: string[] = [];
  #open = 0;

  /** @param whole the exchange of the POST. */
  constructor(front: Front, whole: PostExchange) {
    this.#front = front;
    this.#whole = whole;
    whole.onDisconnect(() => {
      for (const exchange of this.#exchanges) exchange.disconnect();
    });
  }

  /** Must be called for all requests of the batch before the first of them is forwarded. */
  add(idText: string): Exchange {
    const exchange = new SharedExchange(this.#front, idText, this.#whole.acceptedAtMs, this);
    this.#exchanges.push(exchange);
    this.#open++;
    return exchange;
  }

  get sharedBy(): number {
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

  respond(body: string): void {
    this.#responses.push(body);
  }

  onFinished(): void {
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
