import type { Reservation } from "../../memory/memory-budget.ts";

/** A request that the sidecar itself sends to the server. */
export interface InternalRequest {
  readonly method: string;
  readonly params: object;
  /** Called right before the request is sent. It is skipped if this returns false. */
  readonly isCurrent?: () => boolean;
  readonly onSettled?: (hasResult: boolean) => void;
  /** The memory of the client that has caused the request, until its end. */
  readonly memory?: Reservation | undefined;
}

/** The limit keeps clients' requests moving: one client may cancel a thousand subscriptions at once. */
const MAX_IN_FLIGHT = 16;

/** The queue of internal requests. Sends them in order, a few at a time. */
export class InternalRequests {
  readonly #send: (method: string, params: object, onSettled: (hasResult: boolean) => void) => void;
  #queue: InternalRequest[] = [];
  #inFlight = 0;

  constructor(send: (method: string, params: object, onSettled: (hasResult: boolean) => void) => void) {
    this.#send = send;
  }

  add(request: InternalRequest): void {
    this.#queue.push(request);
    this.#sendNext();
  }

  /** Drops all queued requests. Called when the server is lost: the next generation gets the state of that time. */
  clear(): void {
    for (const { memory } of this.#queue) memory?.release();
    this.#queue = [];
  }

  #sendNext(): void {
    while (this.#inFlight < MAX_IN_FLIGHT) {
      const request = this.#queue.shift();
      if (request === undefined) return;
      if (request.isCurrent?.() === false) {
        request.memory?.release();
        continue;
      }
      this.#inFlight++;
      this.#send(request.method, request.params, (hasResult) => {
        this.#inFlight--;
        request.memory?.release();
        request.onSettled?.(hasResult);
        this.#sendNext();
      });
    }
  }
}
