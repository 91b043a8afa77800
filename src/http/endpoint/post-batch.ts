import type { ObservedRequest } from "../../observability/request-observer.ts";
import type { MemoryAccount, Reservation } from "../../memory/memory-budget.ts";
import { textMemoryBytes } from "../../memory/memory-size.ts";
import { idTextOf, type RequestMessage } from "../../protocol/message.ts";
import type { Exchange } from "../../sessions/exchange.ts";
import { internalError, responseOutOfMemory } from "../../lane/failures.ts";
import type { Front } from "../front.ts";
import { SharedExchange, type SharedResponse } from "./shared-exchange.ts";
import type { PostExchange } from "./post-exchange.ts";

/** A response up to this length is always kept: the error in its place would need the same. In UTF-16 units. */
const SMALL_LENGTH = 4096;
/** A kept text is copied into bytes when it is sent. */
const COPIES = 2;

/**
 * A batch of revision 2025-03-26: several requests in one POST, each with its own exchange. The responses are sent as one array, or as
 * one event each if a stream has begun. Until then they count as unread output of the client.
 */
export class PostBatch implements SharedResponse {
  readonly httpStatus = 200;
  readonly #front: Front;
  readonly #whole: PostExchange;
  readonly #memory: MemoryAccount;
  /** The exchanges with the methods of their requests. */
  readonly #methods = new Map<SharedExchange, string>();
  #responses: string[] = [];
  #kept: Reservation | undefined;
  #open = 0;

  /** @param whole the exchange of the POST. @param memory the memory of the client. */
  constructor(front: Front, whole: PostExchange, memory: MemoryAccount) {
    this.#front = front;
    this.#whole = whole;
    this.#memory = memory;
    whole.onDisconnect(() => {
      this.#takeAll();
      for (const exchange of this.#methods.keys()) exchange.disconnect();
    });
  }

  /** Must be called for all requests of the batch before the first of them is forwarded. */
  add(request: RequestMessage, observed?: ObservedRequest): Exchange {
    const exchange = new SharedExchange(this.#front, idTextOf(request), this.#whole.acceptedAtMs, this, observed);
    this.#methods.set(exchange, request.method);
    this.#open++;
    return exchange;
  }

  get sharedBy(): number {
    return this.#methods.size;
  }

  get isListening(): boolean {
    return this.#whole.isListening;
  }

  emit(body: string): boolean {
    const isEmitted = this.#whole.emit(body);
    this.#flush();
    return isEmitted;
  }

  keepAlive(): void {
    this.#whole.keepAlive();
    this.#flush();
  }

  respond(body: string, exchange: SharedExchange): void {
    const hasRoom = this.#whole.isStream || this.#reserve(body);
    // A stream passes each response on at once.
    if (!hasRoom) this.#whole.keepAlive();
    const isLost = !hasRoom && !this.#whole.isStream;
    this.#responses.push(isLost ? this.#front.errorBody(responseOutOfMemory(this.#methods.get(exchange) ?? ""), exchange.idText) : body);
  }

  onFinished(): void {
    this.#open--;
    try {
      this.#flush();
      if (this.#open > 0) return;
      const responses = this.#takeAll();
      if (responses.length > 0) this.#whole.respondAll(responses);
      else this.#whole.dismiss();
    } catch (error) {
      // After a defect, the whole batch fails, since this exchange has already finished.
      this.#whole.fail(internalError(true));
      throw error;
    }
  }

  /** Reserves the memory of a response that is kept. @returns false if there is no room. */
  #reserve(body: string): boolean {
    const bytes = textMemoryBytes(body) * COPIES;
    this.#kept ??= this.#memory.hold("unread", 0);
    if (body.length > SMALL_LENGTH) return this.#kept.tryGrow(bytes);
    this.#kept.resize(this.#kept.bytes + bytes);
    return true;
  }

  /** Sends the kept responses if a stream has begun. */
  #flush(): void {
    if (this.#whole.isStream) for (const each of this.#takeAll()) this.#whole.emit(each);
  }

  #takeAll(): string[] {
    const responses = this.#responses;
    this.#responses = [];
    this.#kept?.release();
    this.#kept = undefined;
    return responses;
  }
}
